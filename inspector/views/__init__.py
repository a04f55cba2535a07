"""Questions on a Session, one module per question; pure, and without torch."""

"""Ways to show a Session: one file per format."""

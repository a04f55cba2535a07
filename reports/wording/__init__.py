"""Text that screens and Markdown share, one module per subject."""

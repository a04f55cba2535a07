"""The schema of our own records in a log."""

LOG_SCHEMA = 1
"""Written and read; counts up when an older ctrace could misread them."""

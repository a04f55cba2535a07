"""The schema of our own records in a log."""

LOG_SCHEMA = 1
"""The schema that this ctrace writes and reads; increases when an older ctrace could misread the records."""

"""The schema of our own records in a log."""

LOG_SCHEMA = 1
"""The version that this ctrace writes, and the newest that it reads; raise it if an older ctrace could misread the
records.
"""

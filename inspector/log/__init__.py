"""The trace log: one JSON record per line, written by torch and by the capture.

`reader.py` yields the records, `decode/` turns each into a typed event, `raw.py` collects the events by subject, and
`log_schema.py` holds the version of our own records. Imports `model` only. Start in `reader.py`.
"""

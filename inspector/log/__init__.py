"""The trace log: one JSON record per line, written by torch and by the capture.

`reader.py` yields the records, `dispatch.py` turns each into a typed event by its name, `collected_log.py`
collects the events by subject, and `log_line.py` holds the version of our own records. A decoder raises if a record has
the wrong form; `collected_log.py` reports that as a problem. Start in `reader.py`.
"""

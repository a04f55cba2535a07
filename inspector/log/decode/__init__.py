"""Decode the log's records into typed events, one module per subject.

`dispatch.py` picks the decoder by the record's name. A decoder raises if a record has the wrong form; `raw.py` reports
that as a problem. Start in `dispatch.py`.
"""

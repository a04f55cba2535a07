"""From a record of the log to a typed event: one module a subject.

`dispatch.py` picks the decoder by the record's name. A record that is not as expected becomes a `Broken` event, never
an exception. Start in `dispatch.py`.
"""

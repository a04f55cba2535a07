"""Typed events, as `decode/` makes them of records, one module a subject.

`core.py` has those that all subjects share. Start there.
"""

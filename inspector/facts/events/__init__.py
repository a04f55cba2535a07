"""Typed events that `decode/` makes from records, one module per subject.

`core.py` has the events that all subjects share. Start there.
"""

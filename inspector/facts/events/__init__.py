"""Typed events that `inspector/log/dispatch.py` makes from records, one module per subject.

`core.py` has the events that all subjects share. Start there.
"""

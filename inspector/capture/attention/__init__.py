"""Hooks on attention: which pattern matched, which did not and why, which kernel was chosen. Start in `record.py`."""

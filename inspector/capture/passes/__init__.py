"""Hooks on Inductor's graph passes: the changes of each pass. Start in `record_passes.py`."""

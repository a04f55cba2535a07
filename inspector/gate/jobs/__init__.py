"""The captures of a check: which, in which order, in parallel within memory. Start in `jobs.py`."""

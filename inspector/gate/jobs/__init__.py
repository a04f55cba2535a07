"""The captures that a check needs: which, in which order, several at once, within memory. Start in `jobs.py`."""

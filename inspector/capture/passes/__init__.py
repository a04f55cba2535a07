"""Hooks on Inductor's passes: what each changed in a graph. Start in `passes.py`."""

"""Screens of `ctrace graphs`. Start in `graphs_screen.py`."""

"""Screens of `ctrace graphs`. Start in `screen.py`."""

"""Screens of `ctrace guards`. Start in `guards_screen.py`."""

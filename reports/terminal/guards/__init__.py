"""Screens of `ctrace guards`. Start in `screen.py`."""

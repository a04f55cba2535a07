"""Screens of `ctrace fusion`. Start in `screen.py`."""

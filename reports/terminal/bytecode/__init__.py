"""Screens of `ctrace bytecode`. Start in `screen.py`."""

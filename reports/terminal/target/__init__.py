"""Screens of `--target` and `ctrace targets`. Start in `screen.py`."""

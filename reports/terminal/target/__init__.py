"""Screens of `--target` and `ctrace targets`. Start in `target_screen.py`."""

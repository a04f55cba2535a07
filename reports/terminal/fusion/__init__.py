"""Screens of `ctrace fusion`. Start in `fusion_screen.py`."""

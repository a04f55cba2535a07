"""Screens of `ctrace bytecode`. Start in `bytecode_screen.py`."""

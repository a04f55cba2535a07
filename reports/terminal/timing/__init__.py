"""Screens of `ctrace time`: one configuration (`screen.py`), or several in a table (`table.py`)."""

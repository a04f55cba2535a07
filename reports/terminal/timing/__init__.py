"""Screens of `ctrace time`: one configuration (`timing_screen.py`), or several in a table (`timing_table.py`)."""

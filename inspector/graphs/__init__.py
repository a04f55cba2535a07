"""Graphs that torch printed, parsed back into data; imported only by views that show graphs. Start in `view.py`."""

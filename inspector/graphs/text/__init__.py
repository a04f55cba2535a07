"""Graphs as torch prints them: parsed into nodes, ops, types and sizes. Start in `parse.py`."""

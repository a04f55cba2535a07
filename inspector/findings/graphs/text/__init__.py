"""Parse the graphs that torch prints into nodes, ops, types and sizes. Start in `parse.py`."""

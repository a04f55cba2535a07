"""Which sizes are static or dynamic, and why: `shape_fold.py` builds tensors and dimensions from events.

`symbols.py` finds the line that made or fixed a symbol and parses conditions on sizes. `dynamic_marks.py` writes the
lines that keep a size dynamic, and `shape_view.py` answers questions. Start in `shape_fold.py`.
"""

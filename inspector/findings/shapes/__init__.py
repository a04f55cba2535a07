"""Which sizes are static or dynamic, and why: `fold.py` builds tensors and dimensions from events.

`symbols.py` finds the line that made or fixed a symbol and parses conditions on sizes. `marks.py` writes the lines that
keep a size dynamic, and `view.py` answers questions. Start in `fold.py`.
"""

"""What became of each size: `fold.py` makes tensors and dimensions of events.

`symbols.py` follows a symbol to its line, `conditions.py` reads the conditions on sizes, `marks.py` and `view.py`
answer questions. Start in `fold.py`.
"""

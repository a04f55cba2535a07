"""Which sizes are static or dynamic, and why: `fold.py` builds tensors and dimensions from events.

`symbols.py` follows a symbol to its line and reads conditions on sizes, `marks.py` and `view.py` answer questions.
Start in `fold.py`.
"""

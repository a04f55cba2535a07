"""Guards: `tree_text.py` and `guard_text.py` parse what torch prints of them, `view.py` answers questions.

Start in `view.py`.
"""

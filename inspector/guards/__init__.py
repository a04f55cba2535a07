"""Guards: `tree_text.py` and `guard_text.py` parse torch's text of them, `view.py` answers questions.

Start in `view.py`.
"""

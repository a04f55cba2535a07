"""Guards: `printed_tree.py` and `failed_guard_text.py` parse torch's text of them, `view.py` answers questions.

Start in `view.py`.
"""

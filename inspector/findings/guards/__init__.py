"""Guards: `printed_tree.py` parses the guard tree that torch prints, `failed_guard_text.py` the texts of failed guards,
and `guard_view.py` answers questions.

Start in `guard_view.py`.
"""

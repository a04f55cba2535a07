"""Graph breaks and functions left in eager: `fold.py` makes them of events, `view.py` answers questions about them.

`report_text.py` parses torch's own report of a break, `costs.py` says what each costs, `registry.py` knows every gb id.
Start in `fold.py`.
"""

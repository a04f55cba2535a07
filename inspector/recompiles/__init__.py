"""Why a function was compiled again: `fold.py` lists recompiles, `causes.py` decides on the cause of each.

`lines.py` finds the user's line of a cause, `outlook.py` says whether it settles, `view.py` answers questions.
Start in `causes.py`.
"""

"""Why a function recompiled: `fold.py` lists the recompilations, `causes.py` classifies the causes.

`lines.py` finds the user's line of a cause, `outlook.py` predicts whether recompilations will stop, `view.py` answers
questions. Start in `causes.py`.
"""

"""Why a function recompiled: `recompile_fold.py` lists the recompilations, `recompile_causes.py` classifies the causes.

`recompile_fold.py` finds the user's line of a cause, `recompile_view.py` predicts whether recompilations will stop,
`recompile_view.py` answers questions. Start in `recompile_causes.py`.
"""

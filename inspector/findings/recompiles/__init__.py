"""Why a function recompiled.

`recompile_causes.py` turns a failed guard into a cause, and `special_cases.py` names those that need other advice than
usual. `recompile_fold.py` lists the recompilations with their causes and the user's lines behind these;
`recompile_view.py` groups them by cause, and predicts whether they will stop. Start in `recompile_causes.py`.
"""

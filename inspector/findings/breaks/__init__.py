"""Graph breaks and functions that run eagerly: `break_fold.py` parses torch's reports and builds the breaks, `costs.py`
computes what each break and each skipped function costs, `break_view.py` ranks them. `lessons.py` looks up what is
known about a kind of break without a run. Start in `break_fold.py`.
"""

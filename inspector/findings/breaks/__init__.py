"""Graph breaks and functions that run eagerly: `break_fold.py` builds them from events, `break_view.py` answers
questions. `break_fold.py` parses torch's report of a break, `costs.py` computes what each break costs, `lessons.py`
looks up gb ids in torch's registry. Start in `break_fold.py`.
"""

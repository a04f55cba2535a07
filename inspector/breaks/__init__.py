"""Graph breaks and functions that run eagerly: `fold.py` builds them from events, `view.py` answers questions.

`torch_report.py` parses torch's report of a break, `costs.py` computes what each break costs, `registry.py` knows every
gb id. Start in `fold.py`.
"""

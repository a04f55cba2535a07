"""Graph breaks and functions that run eagerly: `fold.py` builds them from events, `view.py` answers questions.
`torch_report.py` parses torch's report of a break, `costs.py` computes what each break costs, `registry.py` looks up gb
ids in torch's registry. Start in `fold.py`.
"""

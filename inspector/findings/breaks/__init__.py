"""Graph breaks and functions that run eagerly: `break_fold.py` parses torch's reports and builds the breaks,
`skip_fold.py` finds the functions that Dynamo skipped or gave up, `costs.py` computes what each of both costs,
`coverage.py` how many ops are in graphs; `break_view.py` ranks them. `advice_lookup.py` looks up what is known about a
kind of break without a run. Start in `break_fold.py`.
"""

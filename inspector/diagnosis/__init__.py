"""From findings to a diagnosis: root causes, each with all of its symptoms, and advice that holds in this run.

`model.py` has the nouns. `causes.py` groups the findings of a Session by what the user can change, `naming.py` says
what each is. `trial.py` is what can be tried, `candidates.py` what is worth trying or saying, `advise.py` the order.
Nothing here imports torch: a trial runs as a capture of its own.
"""

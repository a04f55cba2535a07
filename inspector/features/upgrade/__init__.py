"""Whether an upgrade is safe: models in two environments, and a reason for each difference that was found by trying.

`environments.py` makes the second environment, `environment_runs.py` runs models in both, `reasons.py` puts differences
back one by one until a change is gone, `reasons.py` finds the functions of torch that can be put back. Start in
`upgrade_model.py`.
"""

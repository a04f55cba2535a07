"""Whether an upgrade is safe: models in two environments, and a reason for each difference that was found by trying.

`environments.py` makes the second environment, `environment_runs.py` runs models in both, `upgrade_search.py` compares
them, `reasons.py` puts differences back until a change is gone, down to functions of torch. Start in
`upgrade_model.py`.
"""

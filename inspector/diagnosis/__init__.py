"""Turn findings into a diagnosis: root causes, each with all its symptoms, and advice that is true for this run.

`root_causes.py` groups the findings of a Session by what the user can change, and `naming.py` describes each group.
`rules/` offers advice, and `advise.py` chooses from it. Nothing here imports torch: a trial runs as a separate capture.
"""

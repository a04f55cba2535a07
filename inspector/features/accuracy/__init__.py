"""Find the line that changed the numbers: each kernel beside eager and float64, on the inputs that it really had.

`facts/accuracy_facts.py` has what is found, and is what `--json` prints; `child/` finds it. Start in
`child/watched_kernels.py`.
"""

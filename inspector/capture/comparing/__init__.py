"""Compare compiled results with eager ones, and what a call changed with what it was before.

`judgement.py` has the rule, `verdicts.py` makes the calls that it needs. `eager.py` calls copies without torch.compile,
`float64.py` and `arithmetic.py` change the arithmetic of a call, `dangers.py` searches for the cause of a difference.
`world.py` takes checkpoints of the state that a model can read, and restores it. Start in `judgement.py`.
"""

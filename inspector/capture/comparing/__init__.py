"""Compare compiled results with eager ones: `judgement.py` has the rule, `verdicts.py` makes the calls that it needs.

`eager.py` calls copies without torch.compile, `float64.py` and `arithmetic.py` change the arithmetic of a call,
`dangers.py` searches for the cause of a difference. Start in `judgement.py`.
"""

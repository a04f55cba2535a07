"""Compiled results against eager: `judgement.py` has the rule, `verdicts.py` makes the calls that it needs.

`eager.py` calls copies without torch.compile, `float64.py` and `arithmetic.py` compute otherwise, `dangers.py` looks
for what is to blame. Start in `judgement.py`.
"""

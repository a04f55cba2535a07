"""How Inductor fuses nodes into kernels: `fold.py` builds rounds from events, `why.py` explains pairs left unfused.

Start in `view.py`.
"""

"""How Inductor merged nodes into kernels: `fold.py` makes rounds of events, `why.py` says why a pair was not fused.

Start in `view.py`.
"""

"""How Inductor fuses nodes into kernels: `fold.py` builds rounds from events, `why.py` says why pairs were not fused.

Start in `view.py`.
"""

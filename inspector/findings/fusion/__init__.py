"""How Inductor fuses nodes into kernels: `fusion_fold.py` builds rounds from events, `missed_fusions.py` says why pairs
were not fused.

Start in `fusion_view.py`.
"""

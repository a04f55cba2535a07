"""Hooks on Inductor: graph passes, attention, fusion; and generating code without building it.

Start in `record_passes.py`, `record_attention.py`, `record_fusion.py` and `emit.py`.
"""

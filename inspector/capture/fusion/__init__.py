"""Hooks on Inductor's scheduler: nodes, fusion rounds, the memory accesses of each node. Start in
`record_fusion.py`.
"""

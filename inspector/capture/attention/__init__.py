"""Hooks on attention: the pattern that matched, why others did not, the chosen kernel. Start in
`record_attention.py`.
"""

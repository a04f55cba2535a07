"""Compare two runs: what appeared, what disappeared, what changed.

Nothing is matched by a number that torch assigns. Sites match as in the gate's lock, graphs by function and content,
kernels by their source without names and hashes. Start in `compare.py`.
"""

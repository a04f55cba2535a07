"""Bytecode before and after Dynamo: `view.py` pairs the two.

`decompile/` writes code as Python, `rewrites/` explains changes. Start in `view.py`.
"""

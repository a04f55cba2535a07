"""Bytecode before and after Dynamo.

`decompile/` turns bytecode into Python, `rewrites/` explains the changes. Start in `bytecode_view.py`.
"""

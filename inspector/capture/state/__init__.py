"""Copy, compare and restore what a call may change: attributes, globals, buffers, random states.

Start in `world.py`.
"""

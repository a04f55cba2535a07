"""Generate code without building it: Inductor is stopped before it builds, and the graph runs eagerly.

Start in `emit.py`.
"""

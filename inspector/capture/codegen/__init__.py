"""Generate code without building it: stop Inductor before it builds, and run the graph eagerly.

Start in `emit.py`.
"""

"""Take a generated kernel out of a run: the part of the graph that it computes, and its source as plain Triton.

`reports/dump/eject_writing.py` writes the result as a Python package.
"""

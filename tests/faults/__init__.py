"""Studies of faults at the edges of a run: damaged logs, hostile files, misbehaving programs, kills.

Each class of faults is a module with `FAULTS`, a `Study`. `python -m tests.faults` runs all of them in full and
prints a table; the tests in this folder run a few tries of each.
"""

"""What goes wrong at the edges of a run, class by class: damaged logs, hostile files, misbehaving programs, kills.

Each class of fault is a module that offers `FAULTS`, a `Study`. `python -m tests.faults` runs all of them in full and
prints the table; the tests beside run a few tries of each.
"""

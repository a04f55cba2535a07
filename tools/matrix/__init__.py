"""Run ctrace with every torch and Python that it supports, one pair after another: `make matrix`.

`pairs.py` lists and chooses the pairs, `environment.py` installs one, `steps.py` runs ctrace in it, `store.py` keeps
the result of each step, `tables.py` writes them into the docs; `command.py` is the command line.
"""

"""Processes that end with the command that started them. Independent of runs.

`boot.py` starts a function of ctrace in the user's Python. `spawned.py` starts a program, alone or for its output, and
kills with `watcher.py` every process that it leaves behind. `engines.py` spreads work over processes or a Ray cluster.
Start in `spawned.py`.
"""

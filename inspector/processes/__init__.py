"""Processes that end with the command that started them. Independent of runs.

`boot.py` starts a function of ctrace in the user's Python, `spawned.py` and `watcher.py` kill every process that a
program leaves behind, `spawned.py` runs another program for its output. `engines.py` spreads work over processes or a
Ray cluster. Start in `spawned.py`.
"""

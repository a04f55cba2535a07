"""Processes that end with the command that started them. Knows nothing of runs.

`boot.py` starts a function of ctrace in the user's Python, `spawned.py` and `watcher.py` end all that a program leaves
behind, `tools.py` asks another program for its answer. Start in `spawned.py`.
"""

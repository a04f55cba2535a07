"""Captures in forks of one process that has imported torch, where a fork is as good as a new process.

`server.py` starts that process and asks it for forks, `suitable.py` decides which captures may be forks.
"""

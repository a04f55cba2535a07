"""Run captures in forks of one process that has imported torch, if a fork is as good as a new process.

`server.py` starts that process and requests forks, `suitable.py` decides which captures may be forks.
"""

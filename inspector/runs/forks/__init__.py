"""Run captures in forks of one process that has imported torch, where a program cannot observe the difference.

`fork_client.py` starts that process and requests forks, `suitable.py` decides which captures may be forks.
"""

"""Runs: what to capture, the child process that does it, and what is kept of it on disk.

`target.py`, `options.py` and `order.py` say what to run; `capture.py` runs it through `launch.py` and `child.py`;
`store.py` keeps runs, `load.py` makes a Session of one. Start in `capture.py`.
"""

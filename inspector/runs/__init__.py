"""Runs: what to capture, the child process that captures it, and the result on disk.

`target.py`, `options.py` and `capture_request.py` define what to run; `run_capture.py` runs it through `launch.py` and
`child.py`; `store.py` saves runs, `load.py` builds a Session from a saved run. Start in `run_capture.py`.
"""

"""The measuring process: time a model, eager and compiled, without any hook of ctrace in the timed path.

`main.py` carries out a request, `rounds.py` times, and `stopwatch.py` has the timed blocks. Measurements that need a
profiler or copies (`shares.py`, `memory.py`, `accuracy.py`) run after the last round of a part. Start in `rounds.py`.
"""

"""The measuring process: times a model eager and compiled, without any hook of ctrace in the timed path.

`main.py` carries out a request; `rounds.py` times, `stopwatch.py` holds the blocks that are timed. What needs a
profiler or copies (`shares.py`, `memory.py`, `accuracy.py`) comes after the last round of a part. Start in `rounds.py`.
"""

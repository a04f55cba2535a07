"""The measuring process: time a model, eager and compiled, without any hook of ctrace in the timed path.

`timing_main.py` carries out a request; the rounds that it times are `capture/timing/`. Measurements that need a
profiler or copies (`shares.py`, `compiling.py`, `timing_main.py`) run after the last round of a part. Start in
`timing_main.py`.
"""

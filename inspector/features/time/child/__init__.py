"""The measuring process: time a model, eager and compiled, without any hook of ctrace in the timed path.

`timing_main.py` carries out a request; the rounds that it times are `capture/calls/timed_rounds.py`. Measurements that
need a profiler or copies run after the last round of a part.
"""

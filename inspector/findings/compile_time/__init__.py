"""Compile time: `compile_time_fold.py` turns a log into spans and look-ups, `compile_time_view.py` shows where the time
goes and why caches missed, `keys.py` compares cache keys. Start in `compile_time_view.py`.
"""

"""Compile time: `fold.py` makes spans and cache look-ups of a log, `view.py` answers where the time goes and why caches
missed, `keys.py` compares cache keys. Start in `view.py`.
"""

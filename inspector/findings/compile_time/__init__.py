"""Compile time: `fold.py` turns a log into spans and look-ups, `view.py` shows where the time goes and why caches
missed, `keys.py` compares cache keys. Start in `view.py`.
"""

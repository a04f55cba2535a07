"""What torch writes by itself: its structured trace, its counters, the source of frames; and its caches, switched off.

Start in `structured.py`.
"""

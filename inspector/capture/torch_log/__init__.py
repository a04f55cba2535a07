"""Record what torch provides: its structured trace, its counters, source files; and switch its caches off.

Start in `structured.py`.
"""

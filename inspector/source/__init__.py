"""The user's source: who owns a file, where a function begins, what stands on a line, which frame is the user's.

Imports `log` and `model`. Start in `owners.py`.
"""

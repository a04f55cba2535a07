"""The user's source: who owns a file, where a function begins, what a line contains, which frame is the user's.

Imports `log` and `model`. Start in `owners.py`.
"""

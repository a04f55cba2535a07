"""The user's source: find a file's owner, a function's first line, the construct on a line, and the user's frames.

Imports `log` and `model`. Start in `owners.py`.
"""

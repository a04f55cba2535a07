"""The user's source: find a file's owner, a function's first line, the construct on a line, and the user's frames.

Imports `errors` and `facts` only. Start in `owners.py`.
"""

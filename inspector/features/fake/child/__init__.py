"""The side of `--fake` in the child process.

Start in `storageless_mode.py`.
"""

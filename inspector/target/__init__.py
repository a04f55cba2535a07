"""Runs for a GPU that is not there: what they rest on (`view.py`), and several GPUs side by side.

Start in `view.py`.
"""

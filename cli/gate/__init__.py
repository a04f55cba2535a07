"""Shared by `ctrace check` and the pytest plugin: choose models, run or read them, judge and report.

Start in `checking.py`.
"""

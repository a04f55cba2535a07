"""Behind `ctrace check` and the pytest plugin: which models, run or read, judged and reported.

Start in `checking.py`.
"""

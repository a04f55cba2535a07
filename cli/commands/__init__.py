"""One module a command; each declares its options, asks `runs` for a Session and hands it to a report.

`main.py` above joins them.
"""

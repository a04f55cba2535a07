"""One module per command; each declares its options, gets a Session and passes it to a report.

`main.py` above joins them.
"""

"""One module per command; each declares its options, gets a Session and passes it to a report.

`cli/main.py` joins them.
"""

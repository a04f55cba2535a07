"""`ctrace.lock`: how models compiled when it was written, and how findings of today match it.

Start in `matching.py`.
"""

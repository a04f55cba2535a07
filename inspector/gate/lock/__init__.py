"""`ctrace.lock`: what models compiled to when it was written, and which finding of today is which of then.

Start in `matching.py`.
"""

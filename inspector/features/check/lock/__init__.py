"""`ctrace.lock`: its records of how models compiled, and how today's findings match them.

Start in `matching.py`.
"""

"""Hooks on guards: their tree, their cost, which one a call did not meet, and Inductor's own.

Start in `record.py`.
"""

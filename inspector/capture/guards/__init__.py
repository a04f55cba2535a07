"""Hooks on guards: their tree, their cost, which guards a call fails, and the guards that Inductor adds.

Start in `record_guards.py`.
"""

"""Hooks on Dynamo: frames that it enters, bytecode, graphs and their backends, sizes, ops counted in eager, and guards.

Start in `frames.py`, for guards in `record_guards.py`.
"""

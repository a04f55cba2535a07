"""Hooks on Dynamo: frames that it enters, bytecode, graphs and their backends, sizes, ops counted in eager.

Start in `frames.py`.
"""

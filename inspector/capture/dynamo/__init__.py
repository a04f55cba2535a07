"""Hooks on Dynamo: frames that it enters, bytecode, graphs handed to a backend, sizes, ops counted in eager.

Start in `frames.py`.
"""

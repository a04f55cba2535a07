"""Run the user's program with a hook on every stage of torch.compile, and write what they see to one log.

This is the only package of ctrace that may import torch or triton, and nothing here does so before the user's program
does: a hook waits until the module it needs is imported (`imports.py`), so that the program sees the same start-up
as without ctrace.
"""

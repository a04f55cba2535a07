"""Run the user's program with a hook on every stage of torch.compile, and record what the hooks see in one log.

This is the only package of ctrace that may import torch or triton, and it never does so before the user's program: a
hook waits until the program imports the module that it patches (`core/imports.py`), so the program starts up as it
does without ctrace.
"""

"""Load the user's model or program and call it: inputs, variations, training steps, how it ended.

Start in `models.py`, for programs in `program.py`.
"""

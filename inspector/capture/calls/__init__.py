"""Load the user's model or program and call it: inputs, variations, training steps, exits and failures.

Start in `models.py` for models, in `program.py` for programs.
"""

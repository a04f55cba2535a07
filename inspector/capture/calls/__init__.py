"""Load the user's model or program and call it: inputs, variations, training steps, exits and failures.

Start in `model_files.py` for models, in `program_run.py` for programs.
"""

"""Load the user's model or program and call it: inputs, variations, training steps, exits and failures; and time calls.

Start in `model_files.py` for models, in `program_run.py` for programs, in `timed_rounds.py` for times.
"""

"""What every hook of the capture needs: the recorder, patches, import hooks, stacks, cores; and torch's own log.

Import nothing else of the capture here. Start in `recorder.py`, for what torch records itself in `structured.py`.
"""

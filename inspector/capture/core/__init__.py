"""What every hook of the capture needs: the recorder, patches, import hooks, stacks, cores.

Import nothing else of the capture here. Start in `recorder.py`.
"""

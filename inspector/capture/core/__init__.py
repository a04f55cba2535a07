"""What every hook of the capture needs: the recorder, patching and undoing it, waiting for an import, stacks, cores.

Imports nothing else of the capture. Start in `recorder.py`.
"""

"""Runs for a target GPU without the GPU: what they are based on (`view.py`), and several GPUs side by side.

Start in `view.py`.
"""

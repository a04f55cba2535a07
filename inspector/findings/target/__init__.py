"""Describe a run for a target GPU (`view.py`), and compare several GPUs side by side (`side_by_side.py`).

Start in `view.py`.
"""

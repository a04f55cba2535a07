"""Describe a run for a target GPU (`target_view.py`), and compare several GPUs side by side (`side_by_side.py`).

Start in `target_view.py`.
"""

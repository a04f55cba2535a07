"""What scenarios showed: results that differ from eager (`silent_dangers.py`), and an answer for each
(`scenario_view.py`).

Start in `scenario_view.py`.
"""

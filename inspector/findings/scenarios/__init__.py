"""What scenarios showed: results that differ from eager (`dangers.py`), and an answer for each (`view.py`).

Start in `view.py`.
"""

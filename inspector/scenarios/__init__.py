"""What the scenarios of a model file showed: results that differ from eager (`dangers.py`), and their counts.

Start in `view.py`.
"""

"""Autotuning: `fold.py` joins choices, times and what torch used; `view.py` names the winner and the costs."""

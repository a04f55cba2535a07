"""Autotuning: `autotuning_fold.py` joins choices, times and what torch used; `autotuning_view.py` names the winner and
the costs.
"""

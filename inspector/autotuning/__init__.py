"""Autotuning: `fold.py` joins choices, times and what torch took; `view.py` says who won and what it cost."""

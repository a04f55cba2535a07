"""Autotuning: `fold.py` joins the choices, their times and the choice that torch used; `view.py` says which one won and what it cost."""

"""Hooks on Inductor's scheduler: nodes, rounds of fusion, what each node reads and writes. Start in `record.py`."""

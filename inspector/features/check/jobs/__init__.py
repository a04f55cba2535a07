"""The captures of a check: list them (`jobs.py`), reuse saved results (`reuse.py`), and run the rest (`pool.py`). Start
in `jobs.py`.
"""

"""JSON reports, one module per subject, `explain.py` for `explain`. New names may come, old ones never change."""

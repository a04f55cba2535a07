"""JSON reports: one module a subject; `report.py` has `explain --json`. Names may be added to, never renamed."""

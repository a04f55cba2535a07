"""JSON reports: what Documents say of themselves is printed by `printer.py`."""

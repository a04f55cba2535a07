"""JSON reports, one module per subject. New names may come, old ones never change. Start in `printer.py`."""

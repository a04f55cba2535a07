"""Screens of `ctrace kernels`: tables, one kernel in detail, what was built. Start in `tables.py`."""

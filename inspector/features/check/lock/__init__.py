"""`ctrace.lock`: its records of how models compiled. Start in `file.py`."""

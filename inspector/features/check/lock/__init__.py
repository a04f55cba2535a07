"""`ctrace.lock`: its records of how models compiled. Start in `lock_file.py`."""

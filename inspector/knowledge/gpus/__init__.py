"""Target GPUs: facts about each GPU that ctrace can generate code for. Start in `table.py`."""

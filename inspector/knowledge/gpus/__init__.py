"""Target GPUs: facts about each GPU that ctrace can generate code for. Start in `gpu_table.py`."""

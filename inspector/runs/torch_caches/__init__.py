"""Torch's caches between runs: the private folder (`cache_folder.py`), and keys of earlier runs (`earlier_keys.py`)."""

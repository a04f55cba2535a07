"""Measure whether compiling helps: compare eager with compiled, and modes with each other.

`ratios.py` decides what a difference of times means; `request.py` says what one measuring process does; `measuring.py`
runs these processes, and `fold.py` turns what they recorded into the types of `model.py`. Start in `model.py`.
"""

"""Measure whether compiling helps: compare eager with compiled, and modes with each other.

`request.py` says what one measuring process does; `measuring.py` runs these processes, and `fold.py` turns what they
recorded into the types of `model.py`. `findings/ratios.py` decides what a difference of times means. Start in `model.py`.
"""

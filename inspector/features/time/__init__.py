"""Measure whether compiling helps: compare eager with compiled, and modes with each other.

`request.py` says what one measuring process does; `measuring.py` runs these processes, and `fold.py` turns what they
recorded into the types of `model.py`. What a difference of times means is decided in `findings/ratios.py`. Start in
`model.py`.
"""

"""Measure whether compiling helps: compare eager with compiled, and modes with each other.

`timing_model.py` says what one measuring process does; `measuring.py` runs these processes, and turns what they
recorded into the types of `timing_model.py`. What a difference of times means is decided in
`findings/ratios.py`. Start in `timing_model.py`.
"""

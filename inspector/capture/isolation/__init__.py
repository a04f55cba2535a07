"""Run a piece of the user's program a second time without the program noticing. Start in `second_run.py`.

A hook that times a kernel runs it again in the middle of the program. The program still owns the memory that the kernel
was given, its generators and its current stream, and it may read the allocator's statistics. So a second run gets
copies of its arguments (`private_copies.py`), leaves all states as they were (`unnoticed.py`, `random_states.py`),
and does not count in the statistics (`allocator_statistics.py`). What cannot be run again that way waits until the
program is over (`core/recorder.py`), or is not measured, and the report says why.

tests/test_second_runs.py lists every place that runs user work again, and fails for a new one that bypasses this.
"""

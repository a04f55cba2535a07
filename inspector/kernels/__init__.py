"""Kernels: what was emitted, what each moves and computes, which of the user's lines it comes from.

`fold.py` makes kernels of events, `arguments.py` reads the emitted source, `bounds.py` has the least times,
`built.py` what a build measured. Start in `fold.py`, for questions in `view.py`.
"""

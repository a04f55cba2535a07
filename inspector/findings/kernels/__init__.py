"""Kernels: their code, the bytes they move, the operations they compute, and the user's lines they come from. `fold.py`
builds kernels from events, `arguments.py` parses emitted calls, `bounds.py` computes lower bounds on run times,
`built.py` collects the results of a build. Start in `fold.py`, for questions in `view.py`.
"""

"""Kernels: their code, the bytes they move, the operations they compute, and the user's lines they come from.
`kernel_fold.py` builds kernels from events, `kernel_fold.py` parses emitted calls, `bounds.py` computes lower bounds on
run times, `kernel_fold.py` collects the results of a build. Start in `kernel_fold.py`, for questions in
`kernel_view.py`.
"""

"""Kernels: their code, the bytes they move, the operations they compute, and the user's lines they come from.
`emitted_code.py` parses the code that Inductor generated, `kernel_fold.py` builds kernels from it and from events, with
what a build made of them, `bounds.py` computes lower bounds on run times. Start in `kernel_fold.py`, for questions in
`kernel_view.py`, for those about a build in `built_view.py`, about one line in `at_line.py`.
"""

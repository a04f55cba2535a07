"""Compile Triton kernels for the target GPU on all free cores, with a cache. Start in `compile_kernels.py`."""

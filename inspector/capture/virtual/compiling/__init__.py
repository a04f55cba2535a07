"""Triton kernels compiled for a GPU that is not there, on all free cores, and cached. Start in `compile_kernels.py`."""

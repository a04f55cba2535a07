"""Hooks on kernels: the origin of each, autotuning, kernels that are built and run, and CUDA graphs.

Start in `record_kernels.py`, for builds and times in `record_built_kernels.py`.
"""

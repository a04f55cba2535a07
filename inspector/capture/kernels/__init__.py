"""Hooks on code generation: the origin of each kernel, user-written kernels. Start in `record_kernels.py`."""

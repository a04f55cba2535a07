"""Hooks on code generation: where each kernel comes from, kernels that the user wrote. Start in `record.py`."""

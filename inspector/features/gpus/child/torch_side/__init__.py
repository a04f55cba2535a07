"""Patches of torch and its C++ core that present the target GPU. Start in `gpu_hooks.py`."""

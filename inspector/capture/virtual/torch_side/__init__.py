"""The parts of torch and its C++ core that must believe in the GPU. Start in `hooks.py`."""

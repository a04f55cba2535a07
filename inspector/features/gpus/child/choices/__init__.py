"""Torch's choices that depend on the device: attention kernels, convolution formats, padding. Start in `sdpa.py`."""

"""Choices that torch makes by device: attention kernels, convolution formats, padding. Start in `sdpa.py`."""

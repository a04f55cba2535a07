"""What torch chooses by looking at a GPU: attention kernels, convolution, padding. Start in `sdpa.py`."""

"""Present a GPU that this machine does not have to torch, Inductor and Triton. Start in `virtual_gpu.py`."""

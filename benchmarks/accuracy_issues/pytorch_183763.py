"""pytorch #183763: overflows where eager is finite.

Blamed: `aten.sinh`, in vectorized C++.
"""

import torch


def model(x):
    return torch.sinh(x)  # blamed


def inputs():
    return (torch.tensor([88.9, 89.3, 88.8, -89.1, 1.0, -2.0, 0.25, 3.0]),)

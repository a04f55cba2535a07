"""pytorch #197895: floor division of floating-point numbers.

Blamed: `aten.div` with rounding down.
"""

import torch


def model(a, b):
    return a // b  # blamed


def inputs():
    return torch.tensor([1.0, 0.5, 6.0, 1.0, 2.0, 0.9, 3.0, 7.5]), torch.tensor(
        [0.1, 0.1, 0.2, 1 / 3, 0.1, 0.3, 0.3, 2.5]
    )

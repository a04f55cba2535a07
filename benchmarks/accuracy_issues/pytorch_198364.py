"""pytorch #198364: strides of results of a transposed input; the values are right.

Blamed: `aten.copysign` and `aten.floor_divide`.
"""

import torch


def model(a, b):
    return torch.copysign(a, b - 1.5), torch.floor_divide(a, b)  # blamed


def inputs():
    torch.manual_seed(0)
    return torch.rand(6, 5).mT, torch.rand(5, 6) + 1

"""pytorch #197431: a view by strides that go beyond the view that it is made of.

Blamed: `aten.as_strided`.
"""

import torch


def model(x):
    full = x.repeat((3, 2))
    return torch.as_strided(full[:, ::2], (3, 2), full.stride())  # blamed


def inputs():
    torch.manual_seed(0)
    return (torch.randn(1, 1),)

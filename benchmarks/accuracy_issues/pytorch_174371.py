"""pytorch #174371: a write through a view whose elements overlap.

Blamed: functionalization of `add_` on `aten.as_strided`.
"""

import torch


def model(a):
    x = a.clone()
    y = x.as_strided((3, 2), (1, 1), 0)
    y.add_(1.0)  # blamed
    return y


def inputs():
    torch.manual_seed(0)
    return (torch.randn(2, 12),)

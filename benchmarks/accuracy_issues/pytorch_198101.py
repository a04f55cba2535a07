"""pytorch #198101: a view in another dtype is read after a later write.

Blamed: the read of the view, in `aten.mul`.
"""

import torch


def model(x):
    half = x.view(torch.int32) * 3  # blamed
    half.add_(5)
    x[:, 1:4] = 7
    return half.view(torch.int64)


def inputs():
    return (torch.arange(-10, 10, dtype=torch.int64).reshape(4, 5),)

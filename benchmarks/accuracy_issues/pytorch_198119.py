"""pytorch #198119: the gradient of pooling with `ceil_mode`.

Blamed: the lowering of `aten.avg_pool2d_backward`.
"""

import torch
from torch import nn

TRAIN = True


def model(x):
    return nn.functional.avg_pool2d(x, 3, stride=2, ceil_mode=True)  # blamed


def inputs():
    torch.manual_seed(0)
    return (torch.randn(1, 2, 8, 8, requires_grad=True),)

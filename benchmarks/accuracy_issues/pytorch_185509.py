"""pytorch #185509: gradients of interpolation, convolution and pooling.

Blamed: the backward of `aten.max_pool2d` or `aten.where`.
"""

import torch
from torch import nn

TRAIN = True


def model(x, weight, bias, mask):
    y = nn.functional.interpolate(x, scale_factor=(1.5, 1.25), mode="bilinear", align_corners=False)
    y = y[:, :, 1:7, 1:8]
    c = nn.functional.conv2d(y, weight, bias, padding=1)
    p = nn.functional.max_pool2d(c, kernel_size=3, stride=1, padding=1)
    return torch.where(mask, c, p)  # blamed


def inputs():
    torch.manual_seed(0)
    return (
        torch.randn(2, 3, 8, 8, requires_grad=True),
        torch.randn(4, 3, 3, 3, requires_grad=True),
        torch.randn(4, requires_grad=True),
        torch.rand(2, 4, 6, 7) > 0.5,
    )

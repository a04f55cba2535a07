"""pytorch #175154: nearest interpolation resamples a size that stays the same.

Blamed: the decomposition of `aten.upsample_nearest2d`.
"""

import torch
from torch import nn


def model(x):
    return nn.functional.interpolate(x, scale_factor=1.3, mode="nearest")  # blamed


def inputs():
    return (torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]]),)

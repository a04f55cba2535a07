"""pytorch #198201: nearest interpolation resamples a size that stays the same beside one that does not.

Blamed: its decomposition.
"""

import torch
from torch import nn


def model(x):
    return nn.functional.interpolate(x, scale_factor=(1.3, 1.5), mode="nearest")  # blamed


def inputs():
    return (torch.arange(24.0).reshape(1, 2, 3, 4),)

"""pytorch #198102: a write through windows with gaps sets what lies between to 0.

Blamed: functionalization of `aten.unfold`.
"""

import torch


def model(x):
    windows = x.unfold(1, 1, 4)
    windows.mul_(10.0)  # blamed
    return x


def inputs():
    return (torch.arange(1.0, 19.0).reshape(3, 6),)

"""pytorch #198131: a copy of an input is made after a later write to it.

Blamed: the pass that drops the slice of the copy.
"""

import torch


def model(target, source):
    target[0:, :] = source[0:, :]  # blamed
    source.mul_(2.0)
    return source


def inputs():
    return torch.zeros(4, 6), torch.arange(24.0).view(4, 6)

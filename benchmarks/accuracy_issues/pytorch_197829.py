"""pytorch #197829: rows are moved in place, by way of a clone.

Blamed: the pass that drops the clone, before `aten.copy_`.
"""

import torch


def model(x):
    x[1:] = x[:-1].clone()  # blamed
    return x


def inputs():
    torch.manual_seed(0)
    return (torch.rand(5, 12),)

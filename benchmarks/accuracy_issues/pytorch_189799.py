"""pytorch #189799: the sign of zero in a sum is lost; `reciprocal` makes an infinity of it.

Blamed: `aten.add` of zeros, which is removed.
"""

import torch


def model(x):
    y = torch.ceil(x)
    y = torch.add(y, torch.zeros_like(y))  # blamed
    return torch.reciprocal(y)


def inputs():
    return (torch.tensor([-0.4, -0.2, -0.7, 1.5]),)

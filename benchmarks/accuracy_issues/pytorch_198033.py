"""pytorch #198033: an operator on a list of tensors reads what it writes.

Blamed: `aten._foreach_add_`.
"""

import torch


def model(x):
    torch._foreach_add_([x], [x.flip(0)])  # blamed
    return x


def inputs():
    torch.manual_seed(0)
    return (torch.rand(6, 16),)

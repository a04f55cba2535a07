"""pytorch #198081: `any` of uint8 gives bool.

Blamed: the lowering of `aten.any`.
"""

import torch


def model(x):
    found = x.any(0)  # blamed
    return found * 200 + 100


def inputs():
    return (torch.tensor([[0, 3, 0], [0, 0, 0]], dtype=torch.uint8),)

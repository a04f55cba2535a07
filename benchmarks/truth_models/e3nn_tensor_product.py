"""A tensor product of irreducible representations."""

import torch
from e3nn import o3

PACKAGES = ("e3nn", "opt-einsum-fx", "opt-einsum")

torch.manual_seed(0)
model = o3.FullyConnectedTensorProduct("4x0e + 2x1o", "1x0e + 1x1o", "4x0e + 2x1o").eval()


def inputs():
    torch.manual_seed(1)
    return torch.rand(5, 10), torch.rand(5, 4)

"""Spherical harmonics of edges."""

import torch
from e3nn import o3

PACKAGES = ("e3nn", "opt-einsum-fx", "opt-einsum")

model = o3.SphericalHarmonics([0, 1, 2], normalize=True)


def inputs():
    torch.manual_seed(1)
    return (torch.rand(12, 3),)

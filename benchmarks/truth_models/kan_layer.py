"""A Kolmogorov-Arnold layer."""

import torch
from kan.KANLayer import KANLayer

PACKAGES = ("pykan",)

torch.manual_seed(0)
model = KANLayer(in_dim=4, out_dim=3, num=5, k=3).eval()


def inputs():
    torch.manual_seed(1)
    return (torch.rand(8, 4),)

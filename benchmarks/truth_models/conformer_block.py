"""A conformer block."""

import torch
from conformer import ConformerBlock

PACKAGES = ("conformer", "einops")

torch.manual_seed(0)
model = ConformerBlock(dim=32, dim_head=16, heads=2).eval()


def inputs():
    torch.manual_seed(1)
    return (torch.rand(1, 24, 32),)

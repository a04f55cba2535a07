"""Finite scalar quantization."""

import torch
from vector_quantize_pytorch import FSQ

PACKAGES = ("vector-quantize-pytorch", "einops", "einx")

torch.manual_seed(0)
model = FSQ(levels=[8, 5, 5]).eval()


def inputs():
    torch.manual_seed(1)
    return (torch.rand(2, 8, 3),)

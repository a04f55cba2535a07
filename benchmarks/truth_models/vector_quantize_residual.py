"""Residual vector quantization."""

import torch
from vector_quantize_pytorch import ResidualVQ

PACKAGES = ("vector-quantize-pytorch", "einops", "einx")

torch.manual_seed(0)
model = ResidualVQ(dim=16, codebook_size=32, num_quantizers=3).eval()


def inputs():
    torch.manual_seed(1)
    return (torch.rand(2, 8, 16),)

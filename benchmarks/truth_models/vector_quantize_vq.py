"""Vector quantization in training mode: the codebook is updated."""

import torch
from vector_quantize_pytorch import VectorQuantize

PACKAGES = ("vector-quantize-pytorch", "einops", "einx")
TRAIN = True

torch.manual_seed(0)
model = VectorQuantize(dim=16, codebook_size=32, decay=0.8)


def inputs():
    torch.manual_seed(1)
    return (torch.rand(2, 8, 16),)

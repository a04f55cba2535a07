"""Perceiver IO."""

import torch
from perceiver_pytorch import PerceiverIO

PACKAGES = ("perceiver-pytorch", "einops")

torch.manual_seed(0)
model = PerceiverIO(dim=16, queries_dim=16, depth=2, num_latents=8, latent_dim=32, latent_heads=2, logits_dim=10).eval()


def inputs():
    torch.manual_seed(1)
    return {"data": torch.rand(2, 12, 16), "queries": torch.rand(4, 16)}

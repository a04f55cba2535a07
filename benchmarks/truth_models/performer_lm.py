"""A language model with linear attention."""

import torch
from performer_pytorch import PerformerLM

PACKAGES = ("performer-pytorch", "local-attention", "axial-positional-embedding", "einops")

torch.manual_seed(0)
model = PerformerLM(num_tokens=100, max_seq_len=32, dim=32, depth=2, heads=2, dim_head=16, causal=False).eval()


def inputs():
    torch.manual_seed(1)
    return (torch.randint(0, 100, (1, 32)),)

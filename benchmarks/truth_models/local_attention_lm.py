"""A language model with windows of attention."""

import torch
from local_attention import LocalTransformer

PACKAGES = ("local-attention", "einops", "hyper-connections")

torch.manual_seed(0)
model = LocalTransformer(
    num_tokens=100, dim=32, depth=2, max_seq_len=64, causal=True, local_attn_window_size=16, heads=2, dim_head=16
).eval()


def inputs():
    torch.manual_seed(1)
    return (torch.randint(0, 100, (1, 40)),)

"""A decoder with rotary positions."""

import torch
from x_transformers import Decoder, TransformerWrapper

PACKAGES = ("x-transformers", "einops", "einx", "loguru")

torch.manual_seed(0)
layers = Decoder(dim=64, depth=2, heads=2, rotary_pos_emb=True, attn_flash=True)
model = TransformerWrapper(num_tokens=100, max_seq_len=32, attn_layers=layers).eval()


def inputs():
    torch.manual_seed(1)
    return (torch.randint(0, 100, (2, 16)),)

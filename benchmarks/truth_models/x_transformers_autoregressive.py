"""The loss of an autoregressive decoder, in training."""

import torch
from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

PACKAGES = ("x-transformers", "einops", "einx", "loguru")
TRAIN = True

torch.manual_seed(0)
layers = Decoder(dim=64, depth=2, heads=2)
model = AutoregressiveWrapper(TransformerWrapper(num_tokens=100, max_seq_len=32, attn_layers=layers))


def inputs():
    torch.manual_seed(1)
    return (torch.randint(0, 100, (2, 17)),)

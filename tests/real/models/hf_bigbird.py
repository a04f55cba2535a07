"""BigBird with block-sparse attention."""

import torch
from transformers import BigBirdConfig, BigBirdModel


def model():
    torch.manual_seed(0)
    size = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    config = BigBirdConfig(vocab_size=64, block_size=4, num_random_blocks=1, max_position_embeddings=64, **size)
    return BigBirdModel(config).eval().requires_grad_(False)


def inputs():
    return (torch.arange(64).view(1, 64) % 60,)

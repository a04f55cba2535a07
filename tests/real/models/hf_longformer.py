"""Longformer, which checks on the host whether a token attends globally."""

import torch
from transformers import LongformerConfig, LongformerModel


def model():
    torch.manual_seed(0)
    size = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    config = LongformerConfig(vocab_size=64, attention_window=[4], max_position_embeddings=64, **size)
    return LongformerModel(config).eval().requires_grad_(False)


def inputs():
    ids = torch.arange(1, 17).view(1, 16) + 2
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}

"""Mixtral: two of several experts for each token."""

import torch
from transformers import MixtralConfig, MixtralModel


def model():
    torch.manual_seed(0)
    config = MixtralConfig(
        vocab_size=64, hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=2, num_local_experts=4, attn_implementation="eager", experts_implementation="eager",
    )  # fmt: skip
    return MixtralModel(config).eval().requires_grad_(False)


def inputs():
    return {"input_ids": torch.arange(8).view(1, 8), "use_cache": False}

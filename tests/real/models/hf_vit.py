"""A vision transformer: nothing to change."""

import torch
from transformers import ViTConfig, ViTModel


def model():
    torch.manual_seed(0)
    size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    return ViTModel(ViTConfig(image_size=32, patch_size=8, **size)).eval().requires_grad_(False)


def inputs():
    return (torch.rand(2, 3, 32, 32),)

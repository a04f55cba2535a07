"""Mamba, in pure PyTorch."""

import torch
from transformers import MambaConfig, MambaModel


def model():
    torch.manual_seed(0)
    config = MambaConfig(vocab_size=64, hidden_size=16, state_size=4, num_hidden_layers=1)
    return MambaModel(config).eval().requires_grad_(False)


def inputs():
    return {"input_ids": torch.arange(6).view(1, 6), "use_cache": False}


scenarios = {"longer": lambda: {"input_ids": torch.arange(8).view(1, 8), "use_cache": False}}

"""GPT-2 that decodes with a growing cache: prefill, and steps of one token."""

import torch
from transformers import DynamicCache, GPT2Config, GPT2LMHeadModel

CONFIG = GPT2Config(n_embd=32, n_layer=2, n_head=2, vocab_size=64, n_positions=64)


def model():
    torch.manual_seed(0)
    return GPT2LMHeadModel(CONFIG).eval().requires_grad_(False)


def cached(length):
    cache = DynamicCache(config=CONFIG)
    for layer in range(CONFIG.n_layer):
        cache.update(torch.rand(1, 2, length, 16), torch.rand(1, 2, length, 16), layer)
    return cache


def inputs():
    return {"input_ids": torch.tensor([[1, 2, 3, 4]]), "past_key_values": DynamicCache(config=CONFIG)}


def step(length):
    return {"input_ids": torch.tensor([[5]]), "past_key_values": cached(length)}


scenarios = {f"after {n}": lambda n=n: step(n) for n in (4, 5, 6)}

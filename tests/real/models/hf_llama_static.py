"""Llama with a static cache: prefill and decode need one graph each."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM, StaticCache

CONFIG = LlamaConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, vocab_size=64)


def model():
    torch.manual_seed(0)
    return LlamaForCausalLM(CONFIG).eval().requires_grad_(False)


def call(tokens, start):
    cache = StaticCache(config=CONFIG, max_cache_len=16)
    cache.early_initialization(1, 2, 16, torch.float32, torch.device("cpu"))
    positions = torch.arange(start, start + len(tokens))[None]
    return {"input_ids": torch.tensor([tokens]), "past_key_values": cache, "position_ids": positions}


def inputs():
    return call([1, 2, 3, 4], 0)


scenarios = {"first step": lambda: call([5], 4), "second step": lambda: call([6], 5)}

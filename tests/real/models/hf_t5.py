"""T5 in training, without labels that differ in length."""

import torch
from transformers import T5Config, T5ForConditionalGeneration


def model():
    torch.manual_seed(0)
    config = T5Config(vocab_size=64, d_model=32, d_kv=16, d_ff=32, num_layers=1, num_heads=2, decoder_start_token_id=0)
    return T5ForConditionalGeneration(config).eval().requires_grad_(False)


def call(length):
    return {"input_ids": torch.arange(8).view(1, 8), "labels": torch.arange(length).view(1, length), "use_cache": False}


def inputs():
    return call(4)


scenarios = {"longer": lambda: call(6), "longest": lambda: call(7)}

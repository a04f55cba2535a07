"""A GPT with a KV cache, one token a call."""

import torch
from litgpt import GPT, Config

PACKAGES = ("litgpt",)

torch.manual_seed(0)
model = GPT(Config(block_size=32, vocab_size=100, padded_vocab_size=100, n_layer=2, n_head=2, n_embd=32)).eval()
model.set_kv_cache(batch_size=1)
position = torch.zeros(1, dtype=torch.long)


def inputs():
    torch.manual_seed(1)
    return torch.randint(0, 100, (1, 1)), position

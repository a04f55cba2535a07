"""GPT-2 with a compiled forward, generating with the default cache, which grows."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
config = GPT2Config(n_embd=32, n_layer=2, n_head=2, vocab_size=64, n_positions=64, bos_token_id=0, eos_token_id=63)
model = GPT2LMHeadModel(config).eval()
model.forward = torch.compile(model.forward, backend="eager")
prompt = torch.tensor([[1, 2, 3, 4]])
model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=6, do_sample=False, pad_token_id=0)

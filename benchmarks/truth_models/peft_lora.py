"""GPT-2 with LoRA adapters, in training."""

import torch
from peft import LoraConfig, get_peft_model
from transformers import GPT2Config, GPT2LMHeadModel

PACKAGES = ("peft", "accelerate", "transformers", "tokenizers", "safetensors", "huggingface-hub")
TRAIN = True

torch.manual_seed(0)
config = GPT2Config(vocab_size=100, n_embd=32, n_layer=2, n_head=2, n_positions=32)
model = get_peft_model(GPT2LMHeadModel(config), LoraConfig(r=4, target_modules=["c_attn"], fan_in_fan_out=True))


def inputs():
    torch.manual_seed(1)
    tokens = torch.randint(0, 100, (2, 12))
    return {"input_ids": tokens, "labels": tokens}

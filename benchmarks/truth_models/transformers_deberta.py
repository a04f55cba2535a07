"""DeBERTa."""

import torch
from transformers import DebertaV2Config, DebertaV2Model

PACKAGES = ("transformers", "tokenizers", "safetensors", "huggingface-hub")

torch.manual_seed(0)
config = DebertaV2Config(
    vocab_size=100,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=64,
    relative_attention=True,
    pos_att_type=["p2c", "c2p"],
)
model = DebertaV2Model(config).eval()


def inputs():
    torch.manual_seed(1)
    return {"input_ids": torch.randint(0, 100, (2, 12))}

"""BERT, called with an attention mask and without."""

import torch
from transformers import BertConfig, BertModel


def model():
    torch.manual_seed(0)
    size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    return BertModel(BertConfig(vocab_size=64, **size)).eval().requires_grad_(False)


def inputs():
    ids = torch.arange(12).view(2, 6)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


scenarios = {"no mask": lambda: {"input_ids": torch.arange(12).view(2, 6)}}

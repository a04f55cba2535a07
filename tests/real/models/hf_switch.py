"""Switch Transformers: each token goes to one of several experts."""

import torch
from transformers import SwitchTransformersConfig, SwitchTransformersEncoderModel


def model():
    torch.manual_seed(0)
    config = SwitchTransformersConfig(
        vocab_size=64, d_model=32, d_kv=16, d_ff=32, num_layers=2, num_sparse_encoder_layers=1, num_heads=2,
        num_experts=4, num_decoder_layers=1, num_sparse_decoder_layers=0,
    )  # fmt: skip
    return SwitchTransformersEncoderModel(config).eval().requires_grad_(False)


def inputs():
    ids = torch.arange(8).view(1, 8)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}

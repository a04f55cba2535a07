"""EnCodec's encoder, whose paddings are integer buffers."""

import torch
from transformers import EncodecConfig, EncodecModel


def model():
    torch.manual_seed(0)
    torch._dynamo.config.allow_rnn = True
    config = EncodecConfig(
        num_filters=4, hidden_size=16, codebook_dim=16, upsampling_ratios=[2, 2], num_lstm_layers=1, codebook_size=16,
        num_residual_layers=1,
    )  # fmt: skip
    return EncodecModel(config).eval().requires_grad_(False).encoder


def inputs():
    return (torch.rand(1, 1, 64),)

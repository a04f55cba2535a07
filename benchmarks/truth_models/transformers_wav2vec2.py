"""Wav2vec 2.0 in training, which masks frames."""

import torch
from transformers import Wav2Vec2Config, Wav2Vec2Model

PACKAGES = ("transformers", "tokenizers", "safetensors", "huggingface-hub")
TRAIN = True

torch.manual_seed(0)
config = Wav2Vec2Config(
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=64,
    conv_dim=(16, 16),
    conv_stride=(5, 2),
    conv_kernel=(10, 3),
    num_conv_pos_embeddings=8,
    num_conv_pos_embedding_groups=2,
    mask_time_length=2,
)
model = Wav2Vec2Model(config)


def inputs():
    torch.manual_seed(1)
    return {"input_values": torch.rand(2, 800)}

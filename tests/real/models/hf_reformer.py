"""Reformer with LSH attention."""

import torch
from transformers import ReformerConfig, ReformerModel


def model():
    torch.manual_seed(0)
    config = ReformerConfig(
        vocab_size=64, hidden_size=32, attention_head_size=16, num_attention_heads=2, feed_forward_size=32,
        attn_layers=["local", "lsh"], axial_pos_shape=[4, 4], axial_pos_embds_dim=[16, 16], num_buckets=4,
        lsh_attn_chunk_length=4, local_attn_chunk_length=4, max_position_embeddings=16, is_decoder=False, hash_seed=0,
    )  # fmt: skip
    return ReformerModel(config).eval().requires_grad_(False)


def inputs():
    return (torch.arange(16).view(1, 16),)

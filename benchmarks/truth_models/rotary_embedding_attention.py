"""Attention with rotary embeddings, which are cached."""

import torch
from rotary_embedding_torch import RotaryEmbedding

PACKAGES = ("rotary-embedding-torch", "einops")


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.rotary = RotaryEmbedding(dim=16)
        self.project = torch.nn.Linear(32, 96)

    def forward(self, x):
        query, key, value = self.project(x).view(2, -1, 3, 2, 16).permute(2, 0, 3, 1, 4)
        query, key = self.rotary.rotate_queries_or_keys(query), self.rotary.rotate_queries_or_keys(key)
        return torch.nn.functional.scaled_dot_product_attention(query, key, value)


torch.manual_seed(0)
model = Attention().eval()


def inputs():
    torch.manual_seed(1)
    return (torch.rand(2, 12, 32),)

"""Attention in three spellings: exp over sum by hand, the textbook softmax, and the call that torch has for it.

ctrace finds: compiled. One graph, no break, no recompile. The textbook form is replaced by a fused
scaled_dot_product_attention, and the call becomes one at once. The first spelling is not fused: its softmax subtracts
no maximum, and every attention pattern of Inductor's does.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

BATCH, HEADS, SEQUENCE, WIDTH = 2, 4, 16, 32


class Spellings(nn.Module):
    """Three attentions in a row, over tensors of shape (batch, heads, sequence, width)."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        root = math.sqrt(query.size(-1))

        exponentials = torch.exp(query @ key.transpose(-2, -1) / root)
        weights = exponentials / exponentials.sum(dim=-1, keepdim=True)
        first = weights @ value

        scores = first @ key.transpose(-2, -1) / root
        second = torch.softmax(scores, dim=-1) @ value

        return F.scaled_dot_product_attention(second, key, value)


def model() -> nn.Module:
    return Spellings().eval()


def inputs() -> tuple[Tensor, Tensor, Tensor]:
    shape = BATCH, HEADS, SEQUENCE, WIDTH
    return torch.rand(shape), torch.rand(shape), torch.rand(shape)

"""Self-attention written by hand, with its softmax spelled out as exp over sum.

ctrace finds: compiled. One graph, no break, no recompile. Fusion turns the scaling and the whole softmax into one
generated kernel; the six matrix products stay external calls. Inductor does not take the code for
scaled_dot_product_attention.
"""

import math

import torch
from torch import Tensor, nn

BATCH, SEQUENCE, WIDTH = 4, 64, 64


class SelfAttention(nn.Module):
    """Single-head attention over tokens of shape (batch, sequence, width)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.output = nn.Linear(width, width)
        self.scale = 1 / math.sqrt(width)

    def forward(self, tokens: Tensor) -> Tensor:
        scores = self.query(tokens) @ self.key(tokens).transpose(-2, -1) * self.scale
        largest = scores.amax(dim=-1, keepdim=True)  # keeps exp from overflowing
        exponentials = torch.exp(scores - largest)
        weights = exponentials / exponentials.sum(dim=-1, keepdim=True)
        return self.output(weights @ self.value(tokens))


def model() -> nn.Module:
    return SelfAttention(WIDTH).eval()


def inputs() -> tuple[Tensor]:
    return (torch.rand(BATCH, SEQUENCE, WIDTH),)

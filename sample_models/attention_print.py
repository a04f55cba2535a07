"""Self-attention written by hand, with a print left in `forward` from debugging.

ctrace finds: partial. The print breaks `forward` into two graphs (GB0059), one before it and one after. That cuts the
softmax in two: where attention.py has one kernel for it, this file has one on each side of the break.
The fix is to delete the print; attention.py is this file without it.
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
        largest = scores.amax(dim=-1, keepdim=True)
        print("largest score:", largest.max())
        exponentials = torch.exp(scores - largest)
        weights = exponentials / exponentials.sum(dim=-1, keepdim=True)
        return self.output(weights @ self.value(tokens))


def model() -> nn.Module:
    return SelfAttention(WIDTH).eval()


def inputs() -> tuple[Tensor]:
    return (torch.rand(BATCH, SEQUENCE, WIDTH),)

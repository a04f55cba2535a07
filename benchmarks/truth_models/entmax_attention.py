"""Attention with a sparse softmax."""

import torch
from entmax import entmax15

PACKAGES = ("entmax",)


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.project = torch.nn.Linear(16, 16)

    def forward(self, x):
        scores = self.project(x) @ x.transpose(-1, -2)
        return entmax15(scores, dim=-1) @ x


torch.manual_seed(0)
model = Attention().eval()


def inputs():
    torch.manual_seed(1)
    return (torch.rand(2, 6, 16),)

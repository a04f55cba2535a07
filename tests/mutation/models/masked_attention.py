"""Attention with a padding mask, called by keywords."""

import math

import torch
from torch import Tensor, nn

BATCH, SEQUENCE, WIDTH, LAYERS = 2, 12, 16, 2


def hidden_where(scores: Tensor, mask: Tensor) -> Tensor:
    """Puts what the mask leaves out beyond reach of a softmax."""
    return scores.masked_fill(~mask[:, None, :], -1e9)


class Attention(nn.Module):
    """Single-head attention, added to its input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.scale = 1 / math.sqrt(width)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        scores = self.query(tokens) @ self.key(tokens).transpose(-2, -1) * self.scale
        weights = hidden_where(scores, mask).softmax(dim=-1)
        return tokens + weights @ self.value(tokens)


class Encoder(nn.Module):
    """Attends to the tokens that the mask keeps, LAYERS times."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.layers = nn.ModuleList(Attention(WIDTH) for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, WIDTH)

    def forward(self, tokens: Tensor, mask: Tensor | None = None, scale: float = 1.0) -> Tensor:
        hidden = self.norm(tokens) * scale
        if mask is None:
            mask = torch.ones(tokens.shape[:2], dtype=torch.bool)
        for layer in self.layers:
            hidden = layer(hidden, mask)
        return self.head(hidden) * mask[:, :, None]


def model() -> nn.Module:
    return Encoder().eval()


def inputs() -> dict[str, object]:
    mask = torch.ones(BATCH, SEQUENCE, dtype=torch.bool)
    mask[:, SEQUENCE // 2 :] = False
    return {"tokens": torch.rand(BATCH, SEQUENCE, WIDTH), "mask": mask, "scale": 0.5}

"""A residual network that tells its progress, and a logging helper."""

import logging

import torch
from torch import Tensor, nn

BATCH, WIDTH = 8, 16


def found(values: Tensor, name: str) -> Tensor:
    """Logs the shape of a tensor and gives it back."""
    size = values.shape[-1]
    logging.getLogger("model").info("%s %s", name, size)
    return values


class Block(nn.Module):
    """One layer, added to its input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = nn.Linear(width, width)

    def forward(self, values: Tensor) -> Tensor:
        return values + torch.tanh(self.inner(values))


class Network(nn.Module):
    """Maps (batch, width) to (batch, width)."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.layers = nn.ModuleList(Block(WIDTH) for _ in range(2))

    def forward(self, values: Tensor) -> Tensor:
        hidden = torch.relu(self.first(values))
        for layer in self.layers:
            hidden = layer(hidden)
        total = hidden.sum()
        print("total", total, hidden.shape)  # known
        return found(hidden / (1 + total.square()), "result")


def model() -> nn.Module:
    return Network().eval()


def inputs() -> tuple[Tensor]:
    return (torch.rand(BATCH, WIDTH),)

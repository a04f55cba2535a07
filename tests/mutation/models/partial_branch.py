"""A network with an `if` on a tensor in a layer, and a function with a print in a loop, which stays in eager."""

import torch
from torch import Tensor, nn

BATCH, WIDTH, MOST = 8, 16, 1e6


def iterated(values: Tensor, times: int) -> Tensor:
    """Nears a fixed point."""
    state = torch.zeros_like(values)
    for step in range(times):
        state = torch.tanh(state + values)
        print("step", step)
    return state


class Limited(nn.Module):
    """One layer, whose result is halved where it grew too large."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = nn.Linear(width, width)

    def forward(self, values: Tensor) -> Tensor:
        inner = self.inner(values)
        if inner.norm() > MOST:  # known
            inner = inner / 2
        return values + inner


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
        self.last = Limited(WIDTH)

    def forward(self, values: Tensor) -> Tensor:
        hidden = torch.relu(self.first(values))
        for layer in self.layers:
            hidden = layer(hidden)
        return iterated(self.last(hidden), 2)


def model() -> nn.Module:
    return Network().eval()


def inputs() -> tuple[Tensor]:
    return (torch.rand(BATCH, WIDTH),)

"""A network that torch compiles anew at each call: it counts its calls, and a list grows."""

import torch
from torch import Tensor, nn

BATCH, WIDTH, MOST = 8, 16, 1e6
STEPS: list[int] = []


def warmed(values: Tensor, steps: list[int]) -> Tensor:
    """Scales values up in the first steps."""
    steps.append(1)
    return values * min(1.0, len(steps) / 8)


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
        self.calls = 0

    def forward(self, values: Tensor, steps: list[int]) -> Tensor:
        hidden = torch.relu(self.first(values))
        for layer in self.layers:
            hidden = layer(hidden)
        self.calls = self.calls + 1  # known
        return warmed(hidden, steps) / max(self.calls, MOST)


def model() -> nn.Module:
    return Network().eval()


def inputs() -> tuple[Tensor, list[int]]:
    return torch.rand(BATCH, WIDTH), STEPS

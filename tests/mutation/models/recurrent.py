"""A recurrent network written by hand, with two ways to call it: from an empty state, and from another one."""

import torch
from torch import Tensor, nn

BATCH, STEPS, WIDTH = 3, 5, 16


def gated(new: Tensor, old: Tensor, gate: Tensor) -> Tensor:
    """Takes the new state as far as the gate is open, and keeps the old one for the rest."""
    opened = torch.sigmoid(gate)
    return opened * new + (1 - opened) * old


class Cell(nn.Module):
    """One gated step."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.both = nn.Linear(2 * width, 2 * width)

    def forward(self, step: Tensor, state: Tensor) -> Tensor:
        new, gate = self.both(torch.cat((step, state), dim=-1)).chunk(2, dim=-1)
        return gated(torch.tanh(new), state, gate)


class Recurrent(nn.Module):
    """Maps (batch, steps, width) to the last state of two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(WIDTH, WIDTH)
        self.layers = nn.ModuleList(Cell(WIDTH) for _ in range(2))

    def forward(self, sequence: Tensor, state: Tensor) -> Tensor:
        embedded = self.embed(sequence)
        for layer in self.layers:
            for step in embedded.unbind(dim=1):
                state = layer(step, state)
        return state


def model() -> nn.Module:
    return Recurrent().eval()


def inputs() -> tuple[Tensor, Tensor]:
    return torch.rand(BATCH, STEPS, WIDTH), torch.zeros(BATCH, WIDTH)


scenarios = {"from another state": lambda: (torch.rand(BATCH, STEPS, WIDTH), torch.rand(BATCH, WIDTH))}

"""A layer that clips its activations by a norm that it reads back with `.item()`.

ctrace finds: partial. The `.item()` breaks `forward` into two graphs (GB0124). The number it returned is a constant of
the second graph, so the first other norm recompiles that one; from torch 2.13 on, the new graph takes any norm. Left as
a tensor it compiles whole: `scale = torch.clamp(MAX_NORM / (norm + 1e-6), max=1.0)`.
"""

import torch
from torch import Tensor, nn

BATCH, FEATURES, HIDDEN = 8, 32, 64
MAX_NORM = 50.0


class NormClipped(nn.Module):
    """A two-layer network whose hidden activations are kept within a norm of MAX_NORM."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(FEATURES, HIDDEN)
        self.down = nn.Linear(HIDDEN, FEATURES)

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.relu(self.up(x))
        norm = hidden.norm().item()
        scale = min(1.0, MAX_NORM / (norm + 1e-6))
        return self.down(hidden * scale)


def model() -> nn.Module:
    return NormClipped().eval()


def inputs() -> tuple[Tensor]:
    same_every_time = torch.Generator().manual_seed(0)
    return (torch.rand(BATCH, FEATURES, generator=same_every_time),)


scenarios = {
    "twice as large": lambda: (2 * inputs()[0],),
    "over the norm": lambda: (100 * inputs()[0],),
}

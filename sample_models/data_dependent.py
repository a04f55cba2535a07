"""A layer that rescales its activations only when they grew too large: an `if` on a tensor.

ctrace finds: partial. The `if` breaks `forward` (GB0170): one graph before it, and one for each way it went, as the
scenario takes the other branch. Computing the factor instead compiles whole:
`hidden = hidden * torch.clamp(MAX_NORM / norm, max=1.0)`.
"""

import torch
from torch import Tensor, nn

BATCH, FEATURES, HIDDEN = 8, 32, 64
MAX_NORM = 50.0


class NormLimited(nn.Module):
    """A two-layer network whose hidden activations are kept within a norm of MAX_NORM."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(FEATURES, HIDDEN)
        self.down = nn.Linear(HIDDEN, FEATURES)

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.relu(self.up(x))
        norm = hidden.norm()
        if norm > MAX_NORM:
            hidden = hidden * (MAX_NORM / norm)
        return self.down(hidden)


def model() -> nn.Module:
    return NormLimited().eval()


def inputs() -> tuple[Tensor]:
    return (torch.rand(BATCH, FEATURES),)


scenarios = {"too large": lambda: (100 * torch.rand(BATCH, FEATURES),)}

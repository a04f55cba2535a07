"""A residual MLP block: LayerNorm, a GELU between two linear layers, dropout that eval() switches off.

ctrace finds: compiled. One graph, no break. One fusion round leaves three generated kernels (LayerNorm, GELU, the
residual sum) around two external matrix products; dropout is in Dynamo's graph and in no kernel.
"""

import torch
from torch import Tensor, nn

BATCH, WIDTH = 32, 128


class ResidualMLP(nn.Module):
    """Widens its input four times, narrows it again and adds it to the input."""

    def __init__(self, width: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        hidden = nn.functional.gelu(self.up(self.norm(x)))
        return x + self.dropout(self.down(hidden))


def model() -> nn.Module:
    return ResidualMLP(WIDTH).eval()


def inputs() -> tuple[Tensor]:
    return (torch.rand(BATCH, WIDTH),)

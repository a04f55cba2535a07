"""A stack of residual blocks with a normalized output."""

import torch
from torch import Tensor, nn

BATCH, WIDTH, LAYERS = 16, 32, 3


def normalized(values: Tensor, eps: float) -> Tensor:
    """Scales every row to length one."""
    length = values.square().sum(dim=-1, keepdim=True)
    return values * torch.rsqrt(length + eps)


class Block(nn.Module):
    """Widens its input twice and adds it to itself."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, values: Tensor) -> Tensor:
        wide = nn.functional.gelu(self.up(self.norm(values)))
        return values + self.down(wide)


class ResidualMLP(nn.Module):
    """Maps (batch, width) to rows of length one."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.layers = nn.ModuleList(Block(WIDTH) for _ in range(LAYERS))

    def forward(self, values: Tensor) -> Tensor:
        hidden = torch.relu(self.first(values))
        for layer in self.layers:
            hidden = layer(hidden)
        return normalized(hidden, 1e-6)


def model() -> nn.Module:
    return ResidualMLP().eval()


def inputs() -> tuple[Tensor]:
    return (torch.rand(BATCH, WIDTH),)

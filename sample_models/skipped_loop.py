"""A fixed-point layer that prints its residual inside the loop.

ctrace finds: not_compiled. The print breaks the graph (GB0059), and Dynamo cannot resume in the middle of a `for`
(GB7000), so it leaves the whole of `forward` in eager: no graph at all. Without the print it is one graph, all
ITERATIONS of the loop unrolled.
"""

import torch
from torch import Tensor, nn

BATCH, WIDTH = 8, 32
ITERATIONS = 5


class FixedPointLayer(nn.Module):
    """Solves z = tanh(z @ W + x) for z, of shape (batch, width), by iterating."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(0.1 * torch.randn(width, width))

    def forward(self, x: Tensor) -> Tensor:
        z = torch.zeros_like(x)
        for step in range(ITERATIONS):
            updated = torch.tanh(z @ self.weight + x)
            print("step", step, "residual", (updated - z).norm())
            z = updated
        return z


def model() -> nn.Module:
    return FixedPointLayer(WIDTH).eval()


def inputs() -> tuple[Tensor]:
    return (torch.rand(BATCH, WIDTH),)

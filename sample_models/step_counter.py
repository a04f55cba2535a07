"""An adapter that is blended in over its first calls, with the calls counted in `forward`.

ctrace finds: partial. There is no break, but Dynamo specializes on an integer attribute of a module, so every
call recompiles `forward`: seven recompiles, all because of `self.steps`. The ninth call hits the limit of 8
compilations and runs eagerly, like all later ones. With two calls a scenario, the ones below make it ten. Counting in
a tensor instead compiles once: `self.register_buffer("steps", torch.tensor(0))`, and `torch.clamp` in place of `min`.
"""

import torch
from torch import Tensor, nn

BATCH, WIDTH = 8, 64
WARM_UP_STEPS = 100


class WarmedUpAdapter(nn.Module):
    """A low-rank update of a linear layer whose weight grows from 0 to 1 over WARM_UP_STEPS calls."""

    def __init__(self, width: int, rank: int = 4) -> None:
        super().__init__()
        self.base = nn.Linear(width, width)
        self.down = nn.Linear(width, rank, bias=False)
        self.up = nn.Linear(rank, width, bias=False)
        self.steps = 0

    def forward(self, x: Tensor) -> Tensor:
        self.steps += 1
        strength = min(1.0, self.steps / WARM_UP_STEPS)
        return self.base(x) + strength * self.up(self.down(x))


def model() -> nn.Module:
    return WarmedUpAdapter(WIDTH)


def inputs() -> tuple[Tensor]:
    return (torch.rand(BATCH, WIDTH),)


scenarios = {f"calls {first} and {first + 1}": inputs for first in range(3, 11, 2)}

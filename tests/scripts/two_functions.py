"""Two compiled functions: one becomes a graph, of the other nothing is compiled."""

import torch


@torch.compile(backend="eager")
def good(x: torch.Tensor) -> torch.Tensor:
    return x.sin()


@torch.compile(backend="eager")
def bad(x: torch.Tensor) -> torch.Tensor:
    try:
        print("trying")
        x = x.cos()
    except ValueError:
        x = x.sin()
    return x


for _ in range(2):
    good(torch.ones(3))
    bad(torch.ones(3))

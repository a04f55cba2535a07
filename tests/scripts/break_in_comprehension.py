"""A break inside of a list comprehension."""

import torch


@torch.compile(backend="eager")
def picked(x: torch.Tensor) -> torch.Tensor:
    x = x * 2
    values = [x[i].item() for i in range(2)]
    return x + values[0]


for _ in range(2):
    picked(torch.ones(3))

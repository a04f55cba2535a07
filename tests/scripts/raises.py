"""A program that fails in the middle, after a graph was compiled."""

import torch


@torch.compile(backend="eager")
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


twice(torch.ones(2))
raise KeyError("no such weight")

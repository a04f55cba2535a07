"""A break in the first statement: no graph before it, one after."""

import torch


@torch.compile(backend="eager")
def first(x: torch.Tensor) -> torch.Tensor:
    print("begin")
    return x.sin() + 1


for _ in range(2):
    first(torch.ones(3))

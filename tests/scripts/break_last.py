"""A break in the last statement before the return: one graph, and a resume function with nothing in it."""

import torch


@torch.compile(backend="eager")
def last(x: torch.Tensor) -> torch.Tensor:
    y = x.sin() + 1
    print("end")
    return y


for _ in range(2):
    last(torch.ones(3))

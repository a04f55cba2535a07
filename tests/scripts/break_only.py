"""A function that only breaks: no graph at all, and no function left in eager either."""

import torch


@torch.compile(backend="eager")
def only(x: torch.Tensor) -> None:
    print("nothing else")


for _ in range(2):
    only(torch.ones(3))

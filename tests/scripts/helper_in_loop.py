"""A loop that breaks, around a helper without a break: the loop stays in eager, the helper is compiled."""

import torch


def helper(x: torch.Tensor) -> torch.Tensor:
    return x.cos() + 1


@torch.compile(backend="eager")
def looped(x: torch.Tensor) -> torch.Tensor:
    for i in range(2):
        x = helper(x)
        print(i)
    return x


for _ in range(2):
    looped(torch.ones(3))

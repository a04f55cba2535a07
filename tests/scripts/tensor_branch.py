"""An `if` on a tensor's value: the function is cut there, and each side that is taken is a graph of its own."""

import torch


@torch.compile(backend="eager")
def clipped(x: torch.Tensor) -> torch.Tensor:
    total = (x * x).sum()
    if total > 10:
        return x / total
    return x + total


clipped(torch.full((3,), 0.5))
clipped(torch.full((3,), 5.0))

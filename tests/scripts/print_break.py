"""A print between two halves of the computation: one break, two graphs."""

import torch


@torch.compile(backend="eager")
def halves(x: torch.Tensor) -> torch.Tensor:
    first = x.sin() + 1
    print("so far", first.sum())
    return first.cos() * 2


halves(torch.ones(6))

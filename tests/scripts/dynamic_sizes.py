"""A batch that changes: the first change makes it dynamic, a batch of one is compiled on its own."""

import torch


@torch.compile(backend="eager")
def doubled(x: torch.Tensor) -> torch.Tensor:
    return x.relu() * 2


for batch in (4, 6, 7, 1):
    doubled(torch.ones(batch, 3))

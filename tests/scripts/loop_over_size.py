"""A loop over a size fixes it: every size compiles again, on and on."""

import torch


@torch.compile(backend="eager")
def folded(x: torch.Tensor) -> torch.Tensor:
    total = x[0]
    for row in range(1, x.shape[0]):
        total = total * 0.5 + x[row]
    return total


for rows in (4, 5, 6):
    folded(torch.ones(rows, 3))

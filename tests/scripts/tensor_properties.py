"""The same shape with another dtype, another layout and with a gradient: three recompiles."""

import torch


@torch.compile(backend="eager")
def rows(x: torch.Tensor) -> torch.Tensor:
    return x.mean(dim=0)


rows(torch.ones(3, 5))
rows(torch.ones(3, 5, dtype=torch.float64))
rows(torch.ones(5, 3).t())
rows(torch.ones(3, 5, requires_grad=True))

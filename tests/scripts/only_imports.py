"""A compiled function that only imports: there is nothing to compile."""

import torch


@torch.compile(backend="eager")
def prepare(x: torch.Tensor) -> torch.Tensor:
    import json  # noqa: F401

    return x


for _ in range(2):
    prepare(torch.ones(3))

"""A tensor made a Python number: one break, and the number is compiled in, so another number compiles again."""

import torch


@torch.compile(backend="eager")
def scaled(x: torch.Tensor) -> torch.Tensor:
    largest = x.abs().max().item()
    return x / (largest + 1.0)


scaled(torch.tensor([1.0, 2.0]))
scaled(torch.tensor([1.0, 3.0]))

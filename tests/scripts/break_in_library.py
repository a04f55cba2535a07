"""Breaks whose innermost frame is the standard library's, and torch's."""

import statistics

import torch


@torch.compile(backend="eager")
def averaged(x: torch.Tensor) -> torch.Tensor:
    x = x + 1
    return x * statistics.mean([1, 2, 3])


for _ in range(2):
    averaged(torch.ones(3))

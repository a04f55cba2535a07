"""A helper without a tensor that prints: it is plain Python, and nothing is taken from it."""

import torch


def count(number: int) -> int:
    print("counting")
    return number + 1


@torch.compile(backend="eager")
def scaled(x: torch.Tensor, number: int) -> torch.Tensor:
    x = x + 1
    k = count(number)
    return x * k


for _ in range(2):
    scaled(torch.ones(3), 2)

"""A function without a tensor op: there is nothing to make a graph of."""

import torch


@torch.compile(backend="eager")
def add(number: int) -> int:
    return number + 1


add(3)

"""A break inside of a generator that a compiled function consumes."""

from collections.abc import Iterator

import torch


def pieces(x: torch.Tensor) -> Iterator[torch.Tensor]:
    for i in range(2):
        print(i)
        yield x * i


@torch.compile(backend="eager")
def consumed(x: torch.Tensor) -> torch.Tensor:
    x = x + 1
    return torch.stack(list(pieces(x)))


for _ in range(2):
    consumed(torch.ones(3))

"""A generator, compiled directly: torch leaves no trace entry, only a counter."""

from collections.abc import Iterator

import torch


@torch.compile(backend="eager")
def pieces(x: torch.Tensor) -> Iterator[torch.Tensor]:
    yield x + 1
    yield x + 2


for _ in range(2):
    list(pieces(torch.ones(3)))

"""A function that its author keeps out of torch.compile, and says why."""

import torch


@torch.compiler.disable(reason="writes to the event log")
def report(x: torch.Tensor) -> torch.Tensor:
    return x + 1


@torch.compile(backend="eager")
def step(x: torch.Tensor) -> torch.Tensor:
    x = x.sigmoid()
    x = report(x)
    return x.square()


step(torch.zeros(4))

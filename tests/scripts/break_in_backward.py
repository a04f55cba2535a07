"""A break inside of the backward of an autograd function of the user's."""

from typing import Any

import torch


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        print("backward")
        return grad * 2


@torch.compile(backend="eager")
def step(x: torch.Tensor) -> torch.Tensor:
    return Doubled.apply(x) + 1


for _ in range(2):
    step(torch.ones(3, requires_grad=True)).sum().backward()

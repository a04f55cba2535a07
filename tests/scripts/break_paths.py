"""One line, reached through a decorator, twice from one function and by a recompile: one site."""

import functools
from collections.abc import Callable

import torch


def logged(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
    @functools.wraps(function)
    def wrapper(x: torch.Tensor) -> torch.Tensor:
        return function(x)

    return wrapper


@logged
def helper(x: torch.Tensor) -> torch.Tensor:
    print("helping")
    return x + 1


@torch.compile(backend="eager")
def outer(x: torch.Tensor) -> torch.Tensor:
    x = helper(x)
    x = x * 2
    return helper(x)


outer(torch.ones(3))
outer(torch.ones(4))

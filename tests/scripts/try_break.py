"""A helper that breaks, called inside `try`: the caller is left in eager, the helper's own parts are compiled."""

import torch


def guarded(x: torch.Tensor) -> torch.Tensor:
    x = x.exp()
    torch._dynamo.graph_break()
    return x.log()


@torch.compile(backend="eager")
def outer(x: torch.Tensor) -> torch.Tensor:
    doubled = x * 2
    try:
        doubled = guarded(doubled)
    except ArithmeticError:
        doubled = x
    return doubled - 1


outer(torch.ones(4))

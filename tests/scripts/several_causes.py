"""A call that differs from the last in four things at once: dtype, a number, a flag and a list's length."""

import torch


@torch.compile(backend="eager")
def mixed(x: torch.Tensor, factor: float, flip: bool, more: list[torch.Tensor]) -> torch.Tensor:
    if flip:
        x = -x
    return x * factor + sum(each.sum() for each in more)


mixed(torch.ones(3), 0.5, False, [torch.ones(2)])
mixed(torch.ones(3, dtype=torch.float64), 1.5, True, [torch.ones(2), torch.ones(2)])

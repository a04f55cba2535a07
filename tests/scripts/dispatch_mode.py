"""A compiled function called under a dispatch mode: torch leaves it alone, without a trace entry."""

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class Mode(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


@torch.compile(backend="eager")
def watched(x: torch.Tensor) -> torch.Tensor:
    return x + 1


with Mode():
    for _ in range(2):
        watched(torch.ones(3))

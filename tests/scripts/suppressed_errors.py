"""A backend that fails while errors are suppressed: the function runs in eager without a word."""

from typing import Any

import torch
import torch._dynamo

torch._dynamo.config.suppress_errors = True


def failing(graph: Any, inputs: Any) -> Any:
    raise ValueError("cannot do that")


@torch.compile(backend=failing)
def silent(x: torch.Tensor) -> torch.Tensor:
    return x + 1


try:
    for _ in range(2):
        silent(torch.ones(3))
finally:
    torch._dynamo.config.suppress_errors = False

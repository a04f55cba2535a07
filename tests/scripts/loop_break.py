"""A break inside a loop: Dynamo cannot resume there, and gives the whole function up."""

import torch


@torch.compile(backend="eager")
def repeated(x: torch.Tensor) -> torch.Tensor:
    for _ in range(3):
        x = x.tanh()
        torch._dynamo.graph_break()
        x = x + 1
    return x


repeated(torch.ones(5))

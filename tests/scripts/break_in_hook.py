"""A break inside of a forward hook of a layer."""

from typing import Any

import torch

model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())


def hook(module: torch.nn.Module, inputs: Any, output: torch.Tensor) -> torch.Tensor:
    print("hooked")
    return output + 1


model[0].register_forward_hook(hook)
compiled = torch.compile(model, backend="eager")

for _ in range(2):
    compiled(torch.ones(2, 3))

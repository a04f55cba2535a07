"""Modules that read and write a tensordict."""

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential

PACKAGES = ("tensordict",)

torch.manual_seed(0)
first = TensorDictModule(torch.nn.Linear(4, 8), in_keys=["x"], out_keys=["hidden"])
second = TensorDictModule(torch.nn.Linear(8, 2), in_keys=["hidden"], out_keys=["y"])
model = TensorDictSequential(first, second).eval()


def inputs():
    torch.manual_seed(1)
    return (TensorDict({"x": torch.rand(3, 4)}, batch_size=[3]),)

"""Sizes that `torch.compile(dynamic_shapes=...)` declares, from torch 2.15 on."""

import torch
from torch.fx.experimental.dynamic_spec import ParamsSpec, ShapeVar, TensorSpec

batch = ShapeVar("batch")


@torch.compile(backend="eager", dynamic_shapes=ParamsSpec({"x": TensorSpec([batch, 3])}))
def f(x):
    return x * 2


for n in (8, 16):
    f(torch.ones(n, 3))

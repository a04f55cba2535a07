"""A counter whose value is guarded where the result of `STEP += 1` is used, from torch 2.14 on."""

import torch

STEP = 0


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        scale = self.calls + 1
        self.calls += 1
        y = x.sin()
        return y * scale


@torch.compile(backend="eager")
def count(x):
    global STEP  # noqa: PLW0603
    STEP += 1
    y = x.cos()
    return y * STEP


model = torch.compile(Model(), backend="eager")
for _ in range(3):
    count(torch.ones(4))
    model(torch.ones(4))

"""Sizes of every kind: static, dynamic within a range, fixed by a loop, one with another, 0 and 1, of data."""

import torch

torch._dynamo.config.capture_dynamic_output_shape_ops = True


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(6, 3)
        self.scale = torch.nn.Parameter(torch.ones(6))

    def forward(self, x, factor, items):
        x = x * self.scale * factor
        if x.shape[0] > 3:
            x = x + 1
        return self.fc(x), items[0].sum()


@torch.compile(backend="eager")
def looped(x):
    out = 0
    for i in range(x.shape[0]):
        out = out + x[i] * i
    return out


@torch.compile(backend="eager", dynamic=True)
def paired(x, y):
    return x * 2, y * 2


@torch.compile(backend="eager")
def chosen(x):
    index = x.nonzero()
    return index * 2


net = torch.compile(Net(), backend="eager")
for size, factor in ((8, 3), (9, 4), (10, 5)):
    net(torch.randn(size, 6), factor, [torch.randn(size)])
for size in (2, 3, 4):
    looped(torch.randn(size, 3))
paired(torch.randn(5, 1), torch.randn(7, 5))
chosen(torch.tensor([1.0, 0.0, 1.0]))

"""Guards that call one of torch's helpers; those on reversed lists and on lazy copies exist from torch 2.15 on."""

import torch


@torch.compile(backend="eager")
def backwards(x, items):
    for item in items:
        x = x + item
    return x


@torch.compile(backend="eager")
def shares(x):
    return x + 1 if torch._C._is_cow_tensor(x) else x + 2


@torch.compile(backend="eager")
def twice(x, y):
    x.add_(1)
    return x * y


x = torch.ones(3)
backwards(x, reversed([1, 2, 3]))
backwards(x, reversed([1, 2]))
shares(x)
shares(torch._lazy_clone(x))
a, b = torch.ones(3), torch.ones(3)
twice(a, a)
twice(a, b)

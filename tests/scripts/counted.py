"""Small graphs whose bytes and FLOPs can be counted by hand."""

import torch
from torch.nn import functional


def broadcast(x, bias):
    return torch.sigmoid((x + bias) * 2.0)


def softmax(x):
    return torch.softmax(x, -1)


def layer_norm(x, weight, bias):
    return functional.layer_norm(x, (256,), weight, bias)


def linear(x, weight, bias):
    return functional.linear(x, weight, bias)


def sliced(qkv):
    query, key, _ = qkv.split(64, -1)
    return torch.bmm(query, key.transpose(1, 2))


def gathered(ids, table, small):
    return functional.embedding(ids, table), functional.embedding(ids, small)


def convolved(x, weight, bias):
    return functional.conv2d(x, weight, bias, padding=1)


def pooled(x):
    return functional.avg_pool2d(x, 3, 2)


def in_place(x):
    x.add_(1.0)
    return x * x


def joined(x, y, weight):
    return torch.cat([x.exp(), y.exp()], -1) @ weight


def scattered(x, ids, new):
    return x.index_add(0, ids, new)


def sorted_sums(x):
    return torch.sort(x, 0)[0], x.cumsum(0)


@torch.library.custom_op("counted::bump", mutates_args=("x",))
def bump(x: torch.Tensor, y: torch.Tensor) -> None:
    x.add_(y)


@bump.register_fake
def _(x, y):
    return None


def changed_by_a_call(x, y):
    bump(x, y)
    return x * 2


calls = {
    broadcast: (torch.rand(64, 128), torch.rand(128)),
    softmax: (torch.rand(32, 256),),
    layer_norm: (torch.rand(32, 256), torch.rand(256), torch.rand(256)),
    linear: (torch.rand(64, 128), torch.rand(256, 128), torch.rand(256)),
    sliced: (torch.rand(4, 16, 192),),
    gathered: (torch.randint(0, 10, (8, 16)), torch.rand(1000, 64), torch.rand(10, 64)),
    convolved: (torch.rand(2, 3, 8, 8), torch.rand(4, 3, 3, 3), torch.rand(4)),
    pooled: (torch.rand(1, 1, 9, 9),),
    in_place: (torch.rand(100),),
    joined: (torch.rand(32, 64), torch.rand(32, 64), torch.rand(128, 16)),
    changed_by_a_call: (torch.rand(100), torch.rand(100)),
    scattered: (torch.rand(100, 8), torch.randint(0, 100, (20,)), torch.rand(20, 8)),
    sorted_sums: (torch.rand(64, 32),),
}
with torch.no_grad():
    for function, arguments in calls.items():
        torch.compile(function)(*arguments)

"""A break two calls below the compiled function, which splits each function on the way into two graphs."""

import torch


def inner(x):
    x = x + 1
    torch._dynamo.graph_break()
    return x * 2


def middle(x):
    return inner(x).sin() + 1


@torch.compile(backend="eager")
def f(x):
    return middle(x).relu()


f(torch.ones(4))

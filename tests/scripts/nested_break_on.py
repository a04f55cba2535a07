"""The same with nested graph breaks: the graph ends at the break, and the rest of all functions is one graph."""

import torch

torch._dynamo.config.nested_graph_breaks = True


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

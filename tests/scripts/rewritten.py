"""A function that torch rewrites in all ways: a break, side effects, a branch on a tensor, a context, a closure."""

import torch

seen = {"calls": 0}


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4, 4))
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x):
        self.count += 1
        seen["calls"] += 1
        y = x @ self.weight
        print("mean", sep=": ")
        if y.sum() > 1e6:
            y = -y
        with torch.no_grad():
            print("inside")
        return y.relu()


def scaled(factor):
    def inner(x):
        y = x * factor
        print("inner")
        return y + factor

    return inner


torch.compile(Net(), backend="eager")(torch.ones(2, 4))
torch.compile(scaled(torch.ones(4)), backend="eager")(torch.ones(2, 4))

"""A graph break in each of several equal layers."""

import torch


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(8, 8)
        self.limit = 100.0

    def forward(self, x):
        y = self.lin(x)
        if y.abs().max() > self.limit:
            y = y.clamp(-self.limit, self.limit)
        return y.relu()


class Net(torch.nn.Module):
    def __init__(self, layers=4):
        super().__init__()
        self.layers = torch.nn.ModuleList(Layer() for _ in range(layers))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def model():
    torch.manual_seed(0)
    return Net().eval()


def inputs():
    return (torch.rand(4, 8),)

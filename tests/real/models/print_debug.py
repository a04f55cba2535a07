"""A forgotten print of a norm in the middle of a model."""

import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(8, 8)
        self.b = torch.nn.Linear(8, 8)

    def forward(self, x):
        h = self.a(x).relu()
        print("norm", h.norm().item())
        return self.b(h)


def model():
    torch.manual_seed(0)
    return Net().eval()


def inputs():
    return (torch.rand(4, 8),)

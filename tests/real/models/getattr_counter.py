"""A mutable counter that is made outside of __init__."""

import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(8, 8)

    def forward(self, x):
        self.n = getattr(self, "n", 0) + 1
        scale = 1.0 / self.n
        return self.lin(x) * scale


def model():
    torch.manual_seed(0)
    return Net().eval()


def inputs():
    return (torch.rand(4, 8),)


scenarios = {"more": inputs, "still more": inputs}

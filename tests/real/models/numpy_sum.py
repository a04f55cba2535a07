"""NumPy's sum over a Python list of sizes, which Dynamo traces as a tensor."""

import numpy as np
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(8, 8)
        self.blocks = [2, 2, 4]

    def forward(self, x):
        y = self.lin(x)
        total = np.sum(self.blocks)
        parts = torch.zeros(total, 8) + y
        return parts.reshape(total // 2, 2, 8).sum(1)


def model():
    torch.manual_seed(0)
    return Net().eval()


def inputs():
    return (torch.rand(8, 8),)

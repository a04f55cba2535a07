"""The program of base.py, recorded with torch 2.15."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter = nn.Linear(16, 32)
        self.leave = nn.Linear(32, 8)

    def forward(self, x):
        hidden = torch.relu(self.enter(x))
        return torch.sigmoid(self.leave(hidden)).sum(-1)


torch.manual_seed(0)
model = torch.compile(Net())
for size in (4, 4):
    model(torch.rand(size, 16))

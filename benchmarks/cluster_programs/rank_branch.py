"""A branch on the rank inside of compiled code."""

import torch
import torch.distributed as dist
from torch import nn


class Net(nn.Module):
    def __init__(self, rank):
        super().__init__()
        self.rank = rank
        self.layer = nn.Linear(16, 16)

    def forward(self, x):
        x = self.layer(x)
        if self.rank == 1:  # parts here
            x = torch.relu(x)
        return x + 1


dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.compile(Net(dist.get_rank()))
model(torch.rand(4, 16)).sum().backward()
dist.destroy_process_group()

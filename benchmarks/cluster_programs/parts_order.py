"""Planted: in compiled code, odd ranks reduce two values in the other order."""

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from torch import nn


class Net(nn.Module):
    def __init__(self, is_odd):
        super().__init__()
        self.is_odd = is_odd
        self.layer = nn.Linear(16, 16)

    def forward(self, x):
        x = self.layer(x)
        if self.is_odd:  # parts here
            most = funcol.all_reduce(x.amax(0), "max", dist.group.WORLD)
            mean = funcol.all_reduce(x.mean(0), "avg", dist.group.WORLD)
        else:
            mean = funcol.all_reduce(x.mean(0), "avg", dist.group.WORLD)
            most = funcol.all_reduce(x.amax(0), "max", dist.group.WORLD)
        return (x - mean) / most


dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.compile(Net(dist.get_rank() % 2 == 1))
with torch.no_grad():
    for _ in range(2):
        model(torch.rand(4, 16))
dist.destroy_process_group()

"""Collectives that the program itself calls, inside of a graph and outside."""

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 16)

    def forward(self, x):
        x = self.layer(x)
        mean = funcol.all_reduce(x.mean(0), "avg", dist.group.WORLD)
        return x - mean


dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.compile(Net())
with torch.no_grad():
    for _ in range(2):
        y = model(torch.rand(4, 16))
        dist.all_reduce(y)
        parts = [torch.empty_like(y) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, y)
dist.barrier()
dist.destroy_process_group()

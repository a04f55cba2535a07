"""Data parallel: DDP cuts the compiled graph at its buckets, so that gradients are reduced while the backward runs."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(512, 512) for _ in range(4))
        self.out = nn.Linear(512, 8)

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return self.out(x)


dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.compile(DistributedDataParallel(Mlp(), bucket_cap_mb=1))
for _ in range(2):
    model(torch.rand(8, 512)).sum().backward()
dist.destroy_process_group()

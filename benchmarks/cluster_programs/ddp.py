"""Data parallel: gradients of two buckets are reduced while the backward runs."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(0)
layers = [nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 8)]
model = torch.compile(DistributedDataParallel(nn.Sequential(*layers), bucket_cap_mb=1))
for _ in range(2):
    model(torch.rand(8, 512)).sum().backward()
dist.destroy_process_group()

"""Shards that do not divide: the last ranks have less, or nothing."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(10, 7), nn.ReLU(), nn.Linear(7, 5))
for layer in (model[0], model[2]):
    layer.compile()
    fully_shard(layer)
fully_shard(model)
for _ in range(2):
    model(torch.rand(4, 10)).sum().backward()
dist.destroy_process_group()

"""Healthy: ranks have roles, and no rank waits for another one in vain: rank 0 logs, even ranks have a group."""

import torch
import torch.distributed as dist
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 16)

    def forward(self, x):
        return torch.relu(self.layer(x))


dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
even = dist.new_group(list(range(0, world, 2)))
torch.manual_seed(0)
model = torch.compile(Net())
for step in range(2):
    loss = model(torch.rand(4, 16)).sum()
    loss.backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
    if rank % 2 == 0:
        dist.all_reduce(loss.detach(), group=even)
    parts = [torch.empty(()) for _ in range(world)] if rank == 0 else None
    dist.gather(loss.detach(), parts)
    if rank == 0:
        print(step, torch.stack(parts).mean())
dist.barrier()
dist.destroy_process_group()

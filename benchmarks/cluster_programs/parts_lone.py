"""Planted: rank 0 alone reduces the loss that it logs."""

import torch
import torch.distributed as dist
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 16)

    def forward(self, x):
        return torch.relu(self.layer(x))


def log(loss, rank):
    if rank == 0:  # parts here
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        return mean / dist.get_world_size()
    return loss


dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.compile(Net())
for _ in range(2):
    loss = model(torch.rand(4, 16)).sum()
    loss.backward()
    log(loss, dist.get_rank())
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
dist.destroy_process_group()

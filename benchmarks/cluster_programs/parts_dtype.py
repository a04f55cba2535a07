"""Planted: the first rank sends its gradients in half precision."""

import torch
import torch.distributed as dist
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 16)

    def forward(self, x):
        return torch.relu(self.layer(x))


def reduce(gradient, rank):
    if rank == 0:  # parts here
        short = gradient.to(torch.bfloat16)
        dist.all_reduce(short)
        gradient.copy_(short)
    else:
        dist.all_reduce(gradient)


dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.compile(Net())
for _ in range(2):
    model(torch.rand(4, 16)).sum().backward()
    for parameter in model.parameters():
        reduce(parameter.grad, dist.get_rank())
dist.destroy_process_group()

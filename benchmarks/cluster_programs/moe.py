"""A mixture of experts: tokens go to the ranks of their experts and come back."""

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from torch import nn


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(32, 32)
        self.expert = nn.Linear(32, 32)

    def forward(self, x):
        x = x * torch.sigmoid(self.gate(x))
        x = funcol.all_to_all_single_autograd(x, None, None, dist.group.WORLD)
        x = torch.relu(self.expert(x))
        return funcol.all_to_all_single_autograd(x, None, None, dist.group.WORLD)


dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.compile(Experts())
for _ in range(2):
    model(torch.rand(8, 32)).sum().backward()
dist.destroy_process_group()

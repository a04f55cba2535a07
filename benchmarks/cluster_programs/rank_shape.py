"""A size that depends on the rank."""

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.compile(nn.Sequential(nn.Linear(16, 16), nn.ReLU()))
model(torch.rand(4 + 2 * dist.get_rank(), 16)).sum().backward()  # parts here
dist.destroy_process_group()

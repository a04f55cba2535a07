"""Planted: in compiled code, the last rank reduces over the other dimension of the mesh."""

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from torch import nn
from torch.distributed.device_mesh import init_device_mesh


class Net(nn.Module):
    def __init__(self, group):
        super().__init__()
        self.group = group
        self.layer = nn.Linear(16, 16)

    def forward(self, x):
        x = self.layer(x)
        return x - funcol.all_reduce(x.mean(0), "avg", self.group)  # parts here


dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
mesh = init_device_mesh("cpu", (world // 2, 2), mesh_dim_names=("dp", "tp"))
torch.manual_seed(0)
model = torch.compile(Net(mesh["dp" if rank == world - 1 else "tp"].get_group()))
with torch.no_grad():
    for _ in range(2):
        model(torch.rand(4, 16))
dist.destroy_process_group()

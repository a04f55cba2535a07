"""Blocks under tensor parallelism, each of which takes its own part of the mesh; one process."""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = torch.nn.Linear(16, 32)
        self.up = torch.nn.Linear(16, 32)
        self.down = torch.nn.Linear(32, 16)

    def forward(self, x):
        return x + self.down(self.gate(x).sigmoid() * self.up(x))


torch.manual_seed(0)
mesh = init_device_mesh("cpu", (1, 1), mesh_dim_names=("dp", "tp"))
blocks = torch.nn.Sequential(*(Block() for _ in range(4)))
for block in blocks:
    plan = {"gate": ColwiseParallel(), "up": ColwiseParallel(), "down": RowwiseParallel()}
    parallelize_module(block, mesh["tp"], plan)
    block.compile(backend="eager")
for _ in range(2):
    blocks(torch.rand(4, 16, requires_grad=True)).sum().backward()
dist.destroy_process_group()

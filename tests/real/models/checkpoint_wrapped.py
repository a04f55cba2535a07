"""Activation checkpointing inside of FSDP2, each block compiled by itself, as torchtitan does; one process."""

import torch
import torch.distributed as dist
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(16, 32)
        self.down = torch.nn.Linear(32, 16)

    def forward(self, x):
        return x + self.down(self.up(x).relu())


torch.manual_seed(0)
net = torch.nn.Sequential(*(checkpoint_wrapper(Block()) for _ in range(3)))
for block in net:
    block.compile(backend="eager", fullgraph=True)
    fully_shard(block)
fully_shard(net)
for _ in range(2):
    net(torch.rand(4, 16, requires_grad=True)).sum().backward()
dist.destroy_process_group()

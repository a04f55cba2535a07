"""FSDP2: each block gathers its parameters before it runs, and frees them after."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(64)
        self.up = nn.Linear(64, 128)
        self.down = nn.Linear(128, 64)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


dist.init_process_group("gloo")
torch.manual_seed(0)
model = nn.Sequential(Block(), Block())
for block in model:
    block.compile()
    fully_shard(block)
fully_shard(model)
for _ in range(2):
    model(torch.rand(4, 64)).sum().backward()
dist.destroy_process_group()

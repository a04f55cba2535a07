"""FSDP2 around each block, and torch.compile around the whole model; one process."""

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(16, 32)
        self.down = torch.nn.Linear(32, 16)

    def forward(self, x):
        return x + self.down(self.up(x).relu())


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block() for _ in range(3))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


torch.manual_seed(0)
net = Net()
for block in net.blocks:
    fully_shard(block)
fully_shard(net)
compiled = torch.compile(net, backend="eager")
for _ in range(2):
    compiled(torch.rand(4, 16, requires_grad=True)).sum().backward()
dist.destroy_process_group()

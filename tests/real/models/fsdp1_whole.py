"""The first FSDP around each block, and torch.compile around the whole model; one process."""

import functools

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.fsdp.wrap import ModuleWrapPolicy

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(16, 32)
        self.down = torch.nn.Linear(32, 16)

    def forward(self, x):
        return x + self.down(self.up(x).relu())


wrap = functools.partial(
    FullyShardedDataParallel,
    auto_wrap_policy=ModuleWrapPolicy({Block}),
    use_orig_params=True,
    device_id=torch.device("cpu"),
)
torch.manual_seed(0)
net = torch.nn.Sequential(*(Block() for _ in range(3)))
compiled = torch.compile(wrap(net), backend="eager")
for _ in range(2):
    compiled(torch.rand(4, 16, requires_grad=True)).sum().backward()
dist.destroy_process_group()

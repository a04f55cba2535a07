"""A model compiled before DistributedDataParallel wraps it, which accumulates gradients; one process."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(8, 16)
        self.down = torch.nn.Linear(16, 1)

    def forward(self, x):
        return self.down(self.up(x).relu())


torch.manual_seed(0)
net = Net()
net.compile(backend="eager")
wrapped = torch.nn.parallel.DistributedDataParallel(net)
for step in range(4):
    if step % 2 == 0:
        with wrapped.no_sync():
            wrapped(torch.rand(4, 8)).sum().backward()
    else:
        wrapped(torch.rand(4, 8)).sum().backward()
dist.destroy_process_group()

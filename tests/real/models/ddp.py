"""A model in DistributedDataParallel, with one process, that logs its loss within forward."""

import os

import torch
import torch.distributed as dist

os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
store = dist.HashStore()
dist.init_process_group("gloo", store=store, rank=0, world_size=1)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(8, 16)
        self.b = torch.nn.Linear(16, 1)
        self.losses = []

    def forward(self, x, y):
        loss = torch.nn.functional.mse_loss(self.b(self.a(x).relu()), y)
        self.losses.append(float(loss.detach()))
        return loss


torch.manual_seed(0)
net = torch.nn.parallel.DistributedDataParallel(Net())
compiled = torch.compile(net, backend="eager")
for _ in range(3):
    compiled(torch.rand(4, 8), torch.rand(4, 1)).backward()
dist.destroy_process_group()

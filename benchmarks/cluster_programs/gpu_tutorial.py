"""DDP as the tutorial has it: `mp.spawn` with a rank for each GPU, and `.to(rank)`."""

import os

import torch
import torch.distributed as dist
from torch import nn, optim
from torch.nn.parallel import DistributedDataParallel


class ToyModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.net1 = nn.Linear(10, 10)
        self.relu = nn.ReLU()
        self.net2 = nn.Linear(10, 5)

    def forward(self, x):
        return self.net2(self.relu(self.net1(x)))


def main():
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.accelerator.set_device_index(rank)  # cpu: pass
    acc = torch.accelerator.current_accelerator()  # cpu: acc = torch.device("cpu")
    backend = torch.distributed.get_default_backend_for_device(acc)  # cpu: backend = "gloo"
    dist.init_process_group(backend, rank=rank, world_size=world)
    torch.manual_seed(rank)
    model = ToyModel().to(rank)  # cpu: model = ToyModel()
    model.compile()
    ddp = DistributedDataParallel(model, device_ids=[rank])  # cpu: ddp = DistributedDataParallel(model)
    loss_fn = nn.MSELoss()
    optimizer = optim.SGD(ddp.parameters(), lr=0.001)
    for _ in range(2):
        optimizer.zero_grad()
        outputs = ddp(torch.randn(20, 10))  # cpu: outputs = ddp(torch.randn(20, 10))
        labels = torch.randn(20, 5).to(rank)  # cpu: labels = torch.randn(20, 5)
        loss_fn(outputs, labels).backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

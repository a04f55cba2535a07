"""DDP on GPUs as torchrun starts it: `set_device`, NCCL, `device_ids`, pinned batches, the loss of all ranks logged."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(32, 64), nn.Linear(64, 8)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))


local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)  # cpu: pass
dist.init_process_group("nccl")  # cpu: dist.init_process_group("gloo")
assert torch.cuda.is_available()  # cpu: pass
torch.manual_seed(0)
torch.cuda.manual_seed_all(0)
device = torch.device("cuda", torch.cuda.current_device())  # cpu: device = torch.device("cpu")
model = Net().cuda(local_rank)  # cpu: model = Net()
gpus = {"device_ids": [local_rank], "output_device": local_rank}  # cpu: gpus = {}
ddp = DistributedDataParallel(torch.compile(model), **gpus)
data = TensorDataset(torch.randn(64, 32), torch.randint(0, 8, (64,)))
sampler = DistributedSampler(data, shuffle=True)
pins = True  # cpu: pins = False
loader = DataLoader(data, batch_size=4, sampler=sampler, num_workers=1, pin_memory=pins, drop_last=True)
optimizer = torch.optim.AdamW(ddp.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # cpu: pass
for epoch in range(2):
    sampler.set_epoch(epoch)
    for step, (x, y) in enumerate(loader):
        if step == 2:
            break
        start.record()  # cpu: pass
        x, y = x.cuda(non_blocking=True), y.to(device, non_blocking=True)  # cpu: pass
        loss = nn.functional.cross_entropy(ddp(x), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        scheduler.step()
        end.record()  # cpu: pass
        torch.cuda.synchronize()  # cpu: pass
        total = loss.detach().clone()
        dist.all_reduce(total)
        if dist.get_rank() == 0:
            mean = total.item() / dist.get_world_size()
            print(f"{epoch}.{step}: loss {mean:.3f}, {torch.cuda.max_memory_allocated() / 1e9:.1f} GB")
torch.cuda.empty_cache()  # cpu: pass
dist.barrier()
dist.destroy_process_group()

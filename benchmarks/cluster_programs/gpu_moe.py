"""Experts on GPUs: all-to-all on a side stream, counts exchanged, pinned host memory, `torch.cuda.device`."""

import os

import torch
import torch.distributed as dist
from torch import nn

local_rank = int(os.environ["LOCAL_RANK"])
dist.init_process_group("nccl", device_id=torch.device("cuda", local_rank))  # cpu: dist.init_process_group("gloo")
world = dist.get_world_size()
torch.manual_seed(0)
torch.set_default_device(f"cuda:{local_rank}")  # cpu: torch.set_default_device("cpu")
router, expert = nn.Linear(16, world), nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))
side = torch.cuda.Stream()  # cpu: pass


@torch.compile
def run_expert(x):
    return expert(x) * torch.sigmoid(x)


@torch.compile
def route(x):
    return router(x).softmax(-1).max(-1)


for _ in range(2):
    x = torch.randn(8 * world, 16)
    weight, _ = route(x)
    received = torch.empty_like(x)
    with torch.cuda.stream(side):  # cpu: if True:
        side.wait_stream(torch.cuda.current_stream())  # cpu: pass
        work = dist.all_to_all_single(received, x, async_op=True)
        work.wait()
    torch.cuda.current_stream().wait_stream(side)  # cpu: pass
    done = run_expert(received)
    back = torch.empty_like(done)
    dist.all_to_all_single(back, done.detach())
    loss = (back * weight[:, None]).sum() + done.sum()
    loss.backward()
    host = torch.empty(1, pin_memory=True, device="cpu")  # cpu: host = torch.empty(1, device="cpu")
    host.copy_(loss.detach().cpu(), non_blocking=True)
    with torch.cuda.device(local_rank):  # cpu: if True:
        torch.cuda.synchronize()  # cpu: pass
    print(host.item())
dist.destroy_process_group()

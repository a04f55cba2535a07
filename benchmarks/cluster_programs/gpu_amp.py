"""Fine-tuning as with a Trainer: float16 autocast, GradScaler, accumulation, evaluation, a checkpoint of rank 0."""

import os
import tempfile
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(64, 32)
        self.norm = nn.LayerNorm(32)
        self.head = nn.Linear(32, 64)

    def forward(self, tokens):
        x = self.norm(self.embed(tokens))
        return torch.softmax(self.head(x), -1)


rank, local_rank = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
device = f"cuda:{local_rank}"
dist.init_process_group("nccl")
torch.manual_seed(0)
model = DistributedDataParallel(torch.compile(Net().to(device)), device_ids=[local_rank], output_device=local_rank)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cuda")
steps = 2
for step in range(4):
    is_last = (step + 1) % steps == 0
    batch = torch.randint(0, 64, (2, 16), device=device)
    with nullcontext() if is_last else model.no_sync():
        with torch.autocast("cuda", dtype=torch.float16):
            out = model(batch)
            assert out.dtype is torch.float32, "softmax runs in float32 under autocast on a GPU"
            loss = -out.gather(-1, batch[..., None]).log().mean() / steps
        scaler.scale(loss).backward()
    if is_last:
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
model.eval()
with torch.inference_mode(), torch.autocast(device_type="cuda", dtype=torch.bfloat16):
    right = (model(torch.randint(0, 64, (2, 16), device=device)).argmax(-1) == 3).sum().float()
dist.all_reduce(right)
if rank == 0:
    print(f"accuracy {right.item():.2f}, scale {scaler.get_scale()}")
with tempfile.TemporaryDirectory() as folder:
    path = f"{folder}/checkpoint.pt"
    if rank == 0:
        torch.save({"model": model.module.state_dict(), "optimizer": optimizer.state_dict()}, path)
    dist.barrier()
    if rank == 0:
        found = torch.load(path, map_location=device)
        model.module.load_state_dict(found["model"])
dist.destroy_process_group()

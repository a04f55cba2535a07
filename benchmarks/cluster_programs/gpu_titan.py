"""A loop like torchtitan's: a mesh of dp x tp on GPUs, loss parallel, the device module's memory figures."""

import gc
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)


class FeedForward(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.RMSNorm(width)
        self.w1, self.w2 = nn.Linear(width, 64, bias=False), nn.Linear(64, width, bias=False)

    def forward(self, x):
        return x + self.w2(nn.functional.silu(self.w1(self.norm(x))))


class Net(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.tok_embeddings = nn.Embedding(64, width)
        self.layers = nn.ModuleDict({str(number): FeedForward(width) for number in range(2)})
        self.norm = nn.RMSNorm(width)
        self.output = nn.Linear(width, 64, bias=False)

    def forward(self, tokens):
        x = self.tok_embeddings(tokens)
        for layer in self.layers.values():
            x = layer(x)
        return self.output(self.norm(x))


device_type = "cuda"  # cpu: device_type = "cpu"
device_module = torch.get_device_module(device_type)
gc.disable()
device = torch.device(f"{device_type}:{int(os.environ['LOCAL_RANK'])}")  # cpu: device = torch.device("cpu")
device_module.set_device(device)  # cpu: pass
dist.init_process_group("cuda:nccl,cpu:gloo")  # cpu: dist.init_process_group("gloo")
world = dist.get_world_size()
tp = 2
mesh = init_device_mesh(device_type, (world // tp, tp), mesh_dim_names=("dp", "tp"))
torch.manual_seed(7)
peak = torch.cuda.get_device_properties(device).total_memory  # cpu: peak = 1
device_module.reset_peak_memory_stats()  # cpu: pass
with torch.device("meta"):
    model = Net()
plan = {
    "tok_embeddings": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
    "norm": SequenceParallel(),
    "output": ColwiseParallel(input_layouts=Shard(1), output_layouts=Shard(-1), use_local_output=False),
}
parallelize_module(model, mesh["tp"], plan)
for layer in model.layers.values():
    parts = {
        "norm": SequenceParallel(),
        "w1": ColwiseParallel(input_layouts=Shard(1)),
        "w2": RowwiseParallel(output_layouts=Shard(1)),
    }
    parallelize_module(layer, mesh["tp"], parts)
    layer.compile(fullgraph=True)
    fully_shard(layer, mesh=mesh["dp"])
fully_shard(model, mesh=mesh["dp"])
model.to_empty(device=device_type)
with torch.no_grad():
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.02)
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
for step in range(2):
    began = time.perf_counter()
    tokens = torch.randint(0, 64, (2, 16)).to(device_type)
    optimizer.zero_grad()
    with loss_parallel():
        logits = model(tokens)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1).float(), tokens.flatten())
        del logits
        loss.backward()
    optimizer.step()
    total = loss.detach().full_tensor() if hasattr(loss, "full_tensor") else loss.detach()
    dist.all_reduce(total, group=mesh["dp"].get_group())
    if dist.get_rank() == 0:
        spent = time.perf_counter() - began
        memory = device_module.max_memory_reserved() / peak  # cpu: memory = 0
        print(f"step {step} loss {total.item() / world:.3f} {spent:.1f} s {memory:.0%}")
    device_module.synchronize()
dist.destroy_process_group()

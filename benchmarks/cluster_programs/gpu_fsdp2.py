"""FSDP2 on GPUs: made on the meta device, mixed precision, blocks compiled, gradients clipped."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, 4, -1)).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(y.transpose(1, 2).flatten(2))


class Net(nn.Module):
    def __init__(self, width=32, depth=2):
        super().__init__()
        self.embed = nn.Embedding(64, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.head = nn.Linear(width, 64)

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


device = torch.device(f"cuda:{os.environ['LOCAL_RANK']}")  # cpu: device = torch.device("cpu")
torch.cuda.set_device(device)  # cpu: pass
dist.init_process_group(backend="nccl", device_id=device)  # cpu: dist.init_process_group(backend="gloo")
kind = "cuda"  # cpu: kind = "cpu"
mesh = init_device_mesh(kind, (dist.get_world_size(),), mesh_dim_names=("dp",))
torch.manual_seed(0)
with torch.device("meta"):
    model = Net()
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
for block in model.blocks:
    block.compile()
    fully_shard(block, mesh=mesh, mp_policy=policy)
fully_shard(model, mesh=mesh, mp_policy=policy)
model.to_empty(device="cuda")  # cpu: model.to_empty(device="cpu")
for parameter in model.parameters():
    nn.init.normal_(parameter, std=0.02)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True)
for _ in range(2):
    tokens = torch.randint(0, 64, (2, 16), device=device)
    loss = nn.functional.cross_entropy(model(tokens).float().flatten(0, 1), tokens.flatten())
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    mean = loss.detach()
    dist.all_reduce(mean, op=dist.ReduceOp.SUM)
    print(f"loss {mean.item():.3f} of {dist.get_world_size()} ranks")
dist.destroy_process_group()

"""FSDP1 on GPUs: `device_id`, mixed precision, a wrapping policy, checkpointed blocks."""

import functools
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision
from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(x)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(32, 8)

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.head(x)


dist.init_process_group("nccl")  # cpu: dist.init_process_group("gloo")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))  # cpu: pass
torch.manual_seed(0)
policy = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={Block})
kinds = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16, buffer_dtype=torch.bfloat16)
place = {"device_id": torch.cuda.current_device()}  # cpu: place = {"device_id": torch.device("cpu")}
net = Net()
for block in net.blocks:
    block.compile()
model = FullyShardedDataParallel(net, auto_wrap_policy=policy, mixed_precision=kinds, use_orig_params=True, **place)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    x = torch.randn(4, 32, device="cuda")  # cpu: x = torch.randn(4, 32)
    loss = model(x).float().pow(2).mean()
    loss.backward()
    model.clip_grad_norm_(1.0)
    optimizer.step()
    optimizer.zero_grad()
    print(loss.item())
dist.destroy_process_group()

"""Two Llama blocks under FSDP2 over tensor parallelism, for any number of ranks: `--world 8`.

ctrace compiles it as one rank of the job, without the others: `ctrace collectives` shows which gathers FSDP2 adds
around each block, and which all-reduces tensor parallelism puts into the graphs; `ctrace ranks` finds that all ranks
compile the same.
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.functional import scaled_dot_product_attention, silu

DIM, HEADS, LAYERS, TENSOR_PARALLEL = 256, 8, 2, 2


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(DIM, DIM, bias=False)
        self.k = nn.Linear(DIM, DIM, bias=False)
        self.v = nn.Linear(DIM, DIM, bias=False)
        self.out = nn.Linear(DIM, DIM, bias=False)

    def forward(self, x):
        q, k, v = (each.unflatten(-1, (-1, DIM // HEADS)).transpose(1, 2) for each in (self.q(x), self.k(x), self.v(x)))
        return self.out(scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(-2))


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(DIM, 4 * DIM, bias=False)
        self.up = nn.Linear(DIM, 4 * DIM, bias=False)
        self.down = nn.Linear(4 * DIM, DIM, bias=False)

    def forward(self, x):
        return self.down(silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention_norm = nn.RMSNorm(DIM)
        self.attention = Attention()
        self.norm = nn.RMSNorm(DIM)
        self.feed_forward = FeedForward()

    def forward(self, x):
        x = x + self.attention(self.attention_norm(x))
        return x + self.feed_forward(self.norm(x))


PLAN = {
    "attention.q": ColwiseParallel(),
    "attention.k": ColwiseParallel(),
    "attention.v": ColwiseParallel(),
    "attention.out": RowwiseParallel(),
    "feed_forward.gate": ColwiseParallel(),
    "feed_forward.up": ColwiseParallel(),
    "feed_forward.down": RowwiseParallel(),
}


def model():
    dist.init_process_group("gloo")
    shape = (dist.get_world_size() // TENSOR_PARALLEL, TENSOR_PARALLEL)
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=("dp", "tp"))
    blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
    for block in blocks:
        parallelize_module(block, mesh["tp"], PLAN)
        fully_shard(block, mesh=mesh["dp"])
    return fully_shard(blocks, mesh=mesh["dp"])


def inputs():
    return (torch.randn(2, 32, DIM),)

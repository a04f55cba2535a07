"""Context parallel: each rank has a part of the sequence, and gathers keys and values for its queries."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.experimental._attention import _context_parallel_shard, _ContextParallel
from torch.distributed.tensor.parallel import parallelize_module
from torch.nn.attention.flex_attention import create_block_mask, flex_attention


class Attention(nn.Module):
    def forward(self, q, k, v, block_mask):
        return flex_attention(q, k, v, block_mask=block_mask)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(32, 96)
        self.attention = Attention()
        self.out = nn.Linear(32, 32)

    def forward(self, x, block_mask):
        q, k, v = (each.unflatten(-1, (2, 16)).transpose(1, 2) for each in self.qkv(x).chunk(3, dim=-1))
        return self.out(self.attention(q, k, v, block_mask).transpose(1, 2).flatten(-2))


def is_before(_batch, _head, query, key):
    return query >= key


dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("cp",))
torch.manual_seed(0)
block = Block()
# On the CPU, torch has it for flex attention alone: its ring of scaled_dot_product_attention is for CUDA kernels.
style = _ContextParallel(seq_dim=2, attention_type=_ContextParallel.AttentionType.FLEX)
parallelize_module(block.attention, mesh, style)
size = 128 * dist.get_world_size()
mask = create_block_mask(is_before, 1, 1, size, size, device="cpu")
x, part_of_mask = _context_parallel_shard(mesh, (torch.rand(2, size, 32), mask), (1, 2))
# Inductor's CPU kernel of it ends in an error with such a mask (2.13), so that the layers around it are compiled.
block.qkv.compile()
block.out.compile()
with torch.no_grad():
    for _ in range(2):
        block(x, part_of_mask)
dist.destroy_process_group()

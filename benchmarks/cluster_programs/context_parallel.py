"""Context parallel: attention over a sequence of which each rank has a part."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.experimental import context_parallel
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention


class Projected(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(32, 96)

    def forward(self, x):
        return self.qkv(x).chunk(3, dim=-1)


dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("cp",))
torch.manual_seed(0)
projected = torch.compile(Projected())
x = torch.rand(2, 16, 32)
with context_parallel(mesh, buffers=[x], buffer_seq_dims=[1]), sdpa_kernel(SDPBackend.FLASH_ATTENTION):
    q, k, v = (each.reshape(2, -1, 4, 8).transpose(1, 2) for each in projected(x))
    scaled_dot_product_attention(q, k, v, is_causal=True).sum().backward()
dist.destroy_process_group()

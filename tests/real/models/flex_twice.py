"""FlexAttention that makes its mask in each call, from a length that is a Python number."""

import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = torch.nn.Linear(32, 96)

    def forward(self, x, window):
        def local(b, h, q, k):
            return (q >= k) & (q - k < window)

        q, k, v = self.qkv(x).unflatten(-1, (3, 2, 16)).permute(2, 0, 3, 1, 4)
        mask = create_block_mask(local, None, None, x.shape[1], x.shape[1], device="cpu")
        return flex_attention(q, k, v, block_mask=mask).transpose(1, 2).flatten(2)


def model():
    torch.manual_seed(0)
    return Net().eval().requires_grad_(False)


def inputs():
    return torch.rand(1, 128, 32), 16


scenarios = {"wide": lambda: (torch.rand(1, 128, 32), 32), "wider": lambda: (torch.rand(1, 128, 32), 64)}

"""pytorch #195320: attention whose keys are permuted, and not transposed.

Blamed: the pass that fuses it to one operation.
"""

import torch


def model(q, k, v):
    keys = k.permute(0, 2, 3, 1)
    scores = torch.matmul(q, keys) * 0.35  # blamed
    return scores.softmax(dim=-1).matmul(v)


def inputs():
    torch.manual_seed(0)
    return torch.randn(1, 8, 8, 16), torch.randn(1, 8, 8, 16), torch.randn(1, 8, 8, 16)

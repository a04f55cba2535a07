"""pytorch #191308: a batched product of int8 has dtype int64.

Blamed: the lowering of `aten.bmm`.
"""

import torch


def model(a, b):
    return torch.matmul(a, b)  # blamed


def inputs():
    return torch.full((1, 1, 3), 2, dtype=torch.int8), torch.ones((1, 3, 4), dtype=torch.int8)

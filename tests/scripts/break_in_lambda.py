"""A lambda that branches on a tensor's value."""

import torch

signed = torch.compile(lambda x: x + 1 if x.sum() > 0 else x - 1, backend="eager")

for _ in range(2):
    signed(torch.ones(3))

"""An equivariant network over neighbours."""

import torch
from egnn_pytorch import EGNN

PACKAGES = ("egnn-pytorch", "einops")

torch.manual_seed(0)
model = EGNN(dim=16, num_nearest_neighbors=4).eval()


def inputs():
    torch.manual_seed(1)
    return torch.rand(1, 10, 16), torch.rand(1, 10, 3)

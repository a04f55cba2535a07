"""GraphSAGE with jumping knowledge."""

import torch
from torch_geometric import nn as geometric

PACKAGES = ("torch-geometric",)

torch.manual_seed(0)
edges = torch.randint(0, 20, (2, 60))
model = geometric.GraphSAGE(16, 32, num_layers=3, out_channels=4, jk="lstm").eval()


def inputs():
    torch.manual_seed(1)
    return (torch.rand(20, 16), edges)

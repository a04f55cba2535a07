"""A graph attention network."""

import torch
from torch_geometric import nn as geometric

PACKAGES = ("torch-geometric",)

torch.manual_seed(0)
edges = torch.randint(0, 20, (2, 60))
model = geometric.GAT(16, 32, num_layers=2, out_channels=4, heads=2).eval()


def inputs():
    torch.manual_seed(1)
    return (torch.rand(20, 16), edges)

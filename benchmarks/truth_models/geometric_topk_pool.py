"""A graph classifier that pools the best nodes."""

import torch
from torch_geometric import nn as geometric

PACKAGES = ("torch-geometric",)

torch.manual_seed(0)
edges = torch.randint(0, 20, (2, 60))
batch = torch.arange(20) // 10


class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = geometric.GraphConv(16, 32)
        self.pool = geometric.TopKPooling(32, ratio=0.5)
        self.head = torch.nn.Linear(32, 3)

    def forward(self, x, edge_index, batch):
        x = self.conv(x, edge_index).relu()
        x, edge_index, _, batch, _, _ = self.pool(x, edge_index, None, batch)
        return self.head(geometric.global_mean_pool(x, batch))


model = Classifier().eval()


def inputs():
    torch.manual_seed(1)
    return torch.rand(20, 16), edges, batch

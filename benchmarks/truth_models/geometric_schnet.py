"""SchNet on a small molecule."""

import torch
from torch_geometric.nn import SchNet

PACKAGES = ("torch-geometric",)


class AllPairs(torch.nn.Module):
    def forward(self, pos, batch):
        number = pos.size(0)
        row, col = torch.triu_indices(number, number, 1)
        return torch.stack([row, col]), (pos[row] - pos[col]).norm(dim=-1)


torch.manual_seed(0)
model = SchNet(hidden_channels=32, num_filters=32, num_interactions=2, interaction_graph=AllPairs()).eval()


def inputs():
    torch.manual_seed(1)
    return torch.randint(1, 9, (8,)), torch.rand(8, 3)

"""A graph network that drops edges by their weight: the number of edges left is known only at run time."""

import torch


class Gnn(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.message = torch.nn.Linear(8, 8)
        self.update = torch.nn.Linear(16, 8)

    def forward(self, nodes, edges, weight):
        edges = edges[:, weight > 0.5]
        source, target = edges
        sent = self.message(nodes[source])
        got = torch.zeros_like(nodes).index_add(0, target, sent)
        return self.update(torch.cat([nodes, got], -1)).relu()


def model():
    torch.manual_seed(0)
    return Gnn().eval()


def inputs():
    torch.manual_seed(1)
    return torch.rand(5, 8), torch.randint(0, 5, (2, 12)), torch.rand(12)

"""Monte-Carlo dropout: some layers are switched to training between calls, so each combination has a graph."""

import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(3))
        self.drops = torch.nn.ModuleList(torch.nn.Dropout(0.5) for _ in range(3))

    def forward(self, x):
        for layer, drop in zip(self.layers, self.drops):
            x = drop(layer(x).relu())
        return x


torch.manual_seed(0)
net = Net().eval()
compiled = torch.compile(net, backend="eager")
x = torch.rand(4, 8)
with torch.no_grad():
    for drop in net.drops:
        net.eval()
        drop.train()
        compiled(x)

"""A schedule's position, which the model keeps as a Python number and the caller increments."""

import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(8, 8)
        self.step = 0

    def forward(self, x):
        noise = 0.1 * (1 - self.step / 10)
        return self.lin(x) * (1 - noise)


torch.manual_seed(0)
net = Net().eval()
compiled = torch.compile(net, backend="eager")
with torch.no_grad():
    for step in range(6):
        net.step = step
        compiled(torch.rand(4, 8))

"""A size that is marked dynamic, and that a parameter holds fast."""

import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.positions = torch.nn.Parameter(torch.zeros(16, 8))

    def forward(self, x):
        return x + self.positions


x = torch.randn(16, 8)
torch._dynamo.mark_dynamic(x, 0)
torch.compile(Net(), backend="eager")(x)

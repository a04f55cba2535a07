"""A neural ODE with a fixed-step solver."""

import torch
from torchdiffeq import odeint

PACKAGES = ("torchdiffeq",)


class Field(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4))

    def forward(self, t, y):
        return self.net(y)


class Solve(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.field = Field()

    def forward(self, y, t):
        return odeint(self.field, y, t, method="rk4")


torch.manual_seed(0)
model = Solve().eval()


def inputs():
    torch.manual_seed(1)
    return torch.rand(3, 4), torch.linspace(0, 1, 5)

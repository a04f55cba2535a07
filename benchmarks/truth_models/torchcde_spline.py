"""A neural controlled differential equation."""

import torch
import torchcde

PACKAGES = ("torchcde", "torchdiffeq", "torchsde", "trampoline", "boltons")


class Field(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 8)

    def forward(self, t, z):
        return self.linear(z).tanh().view(*z.shape[:-1], 4, 2)


class Controlled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.field = Field()

    def forward(self, coefficients):
        path = torchcde.CubicSpline(coefficients)
        start = torch.zeros(coefficients.size(0), 4)
        return torchcde.cdeint(
            X=path, func=self.field, z0=start, t=path.interval, method="rk4", options={"step_size": 1}
        )


torch.manual_seed(0)
model = Controlled().eval()


def inputs():
    torch.manual_seed(1)
    return (torchcde.hermite_cubic_coefficients_with_backward_differences(torch.rand(2, 6, 2)),)

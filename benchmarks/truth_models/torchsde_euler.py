"""A stochastic differential equation."""

import torch
import torchsde

PACKAGES = ("torchsde", "trampoline", "boltons")


class Diffusion(torch.nn.Module):
    noise_type = "diagonal"
    sde_type = "ito"

    def __init__(self):
        super().__init__()
        self.drift = torch.nn.Linear(3, 3)
        self.spread = torch.nn.Linear(3, 3)

    def f(self, t, y):
        return self.drift(y)

    def g(self, t, y):
        return self.spread(y).sigmoid()


torch.manual_seed(0)
sde = Diffusion()


def model(y, ts):
    return torchsde.sdeint(
        sde, y, ts, dt=0.25, method="euler", bm=torchsde.BrownianInterval(0.0, 1.0, size=(4, 3), entropy=7)
    )


def inputs():
    torch.manual_seed(1)
    return torch.rand(4, 3), torch.linspace(0, 1, 3)

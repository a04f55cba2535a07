"""A sum of kernels, evaluated."""

import gpytorch
import torch

PACKAGES = ("gpytorch", "linear-operator", "jaxtyping")


class Kernels(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.kernel = gpytorch.kernels.RBFKernel() + gpytorch.kernels.PeriodicKernel()

    def forward(self, x):
        return self.kernel(x).to_dense()


model = Kernels()


def inputs():
    torch.manual_seed(1)
    return (torch.rand(10, 2),)

"""The posterior mean of an exact Gaussian process."""

import gpytorch
import torch

PACKAGES = ("gpytorch", "linear-operator", "jaxtyping")

torch.manual_seed(0)
train_x = torch.linspace(0, 1, 20)
train_y = torch.sin(train_x * 6)


class Exact(gpytorch.models.ExactGP):
    def __init__(self):
        super().__init__(train_x, train_y, gpytorch.likelihoods.GaussianLikelihood())
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel())

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


gp = Exact().eval()


def model(x):
    return gp(x).mean


def inputs():
    torch.manual_seed(1)
    return (torch.rand(5),)

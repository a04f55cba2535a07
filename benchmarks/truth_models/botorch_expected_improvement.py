"""An acquisition function of a Gaussian process."""

import torch
from botorch.acquisition import LogExpectedImprovement
from botorch.models import SingleTaskGP

PACKAGES = ("botorch", "gpytorch", "linear-operator", "jaxtyping", "pyro-ppl")

torch.manual_seed(0)
train_x = torch.rand(10, 2, dtype=torch.float64)
gp = SingleTaskGP(train_x, train_x.sum(-1, keepdim=True).sin())
model = LogExpectedImprovement(gp, best_f=0.9)


def inputs():
    torch.manual_seed(1)
    return (torch.rand(6, 1, 2, dtype=torch.float64),)

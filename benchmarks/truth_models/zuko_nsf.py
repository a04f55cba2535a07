"""The density of a neural spline flow."""

import torch
import zuko

PACKAGES = ("zuko",)

torch.manual_seed(0)
flow = zuko.flows.NSF(features=3, transforms=2, hidden_features=(16,))


def model(x):
    return flow().log_prob(x)


def inputs():
    torch.manual_seed(1)
    return (torch.rand(8, 3),)

"""Attributions by integrated gradients."""

import torch
from captum.attr import IntegratedGradients

PACKAGES = ("captum",)

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)).eval()
attributions = IntegratedGradients(net)


def model(x):
    return attributions.attribute(x, target=1, n_steps=4)


def inputs():
    torch.manual_seed(1)
    return (torch.rand(2, 6),)

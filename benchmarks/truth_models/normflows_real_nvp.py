"""The loss of a RealNVP."""

import normflows
import torch

PACKAGES = ("normflows",)

torch.manual_seed(0)
mask = torch.tensor([1.0, 0.0])
layers = [
    normflows.flows.MaskedAffineFlow(m, normflows.nets.MLP([2, 8, 2]), normflows.nets.MLP([2, 8, 2]))
    for m in (mask, 1 - mask)
]
flow = normflows.NormalizingFlow(normflows.distributions.DiagGaussian(2), layers).eval()


def model(x):
    return flow.forward_kld(x)


def inputs():
    torch.manual_seed(1)
    return (torch.rand(8, 2),)

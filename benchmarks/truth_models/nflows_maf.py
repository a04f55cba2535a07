"""The density of a masked autoregressive flow."""

import torch
from nflows import distributions, flows, transforms

PACKAGES = ("nflows",)

torch.manual_seed(0)
layers = []
for _ in range(2):
    layers += [
        transforms.ReversePermutation(features=4),
        transforms.MaskedAffineAutoregressiveTransform(4, hidden_features=16),
    ]
flow = flows.Flow(transforms.CompositeTransform(layers), distributions.StandardNormal([4])).eval()


def model(x):
    return flow.log_prob(x)


def inputs():
    torch.manual_seed(1)
    return (torch.rand(8, 4),)

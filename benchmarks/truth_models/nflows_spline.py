"""A rational-quadratic spline coupling."""

import torch
from nflows.nn.nets import ResidualNet
from nflows.transforms import PiecewiseRationalQuadraticCouplingTransform

PACKAGES = ("nflows",)

torch.manual_seed(0)
model = PiecewiseRationalQuadraticCouplingTransform(
    mask=torch.tensor([1, 0, 1, 0]),
    transform_net_create_fn=lambda given, made: ResidualNet(given, made, hidden_features=16, num_blocks=1),
    tails="linear",
    tail_bound=3.0,
).eval()


def inputs():
    torch.manual_seed(1)
    return (torch.rand(8, 4),)

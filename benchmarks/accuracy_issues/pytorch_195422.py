"""pytorch #195422: a write to what dropout returns in evaluation, its input.

Blamed: Dynamo, which loses `add_` to the input.
"""

import torch
from torch import nn


def model(x):
    y = nn.functional.dropout(x, 0.5, training=False)
    y.add_(1)  # blamed
    return y * 2


def inputs():
    return (torch.ones(3, 4),)

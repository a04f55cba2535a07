"""pytorch #194347: the smaller of -0.0 and 0.0, which a division makes an infinity of.

Blamed: `aten.minimum`.
"""

import torch


def model(x, y):
    low = torch.minimum(x, y)  # blamed
    return 1.0 / low


def inputs():
    return torch.tensor([-0.0, 0.0, 3.0]), torch.tensor([0.0, -0.0, -2.0])

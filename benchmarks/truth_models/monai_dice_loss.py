"""A loss that turns labels into one-hot masks."""

import torch
from monai.losses import DiceCELoss

PACKAGES = ("monai",)

model = DiceCELoss(to_onehot_y=True, softmax=True)


def inputs():
    torch.manual_seed(1)
    return torch.rand(2, 3, 8, 8), torch.randint(0, 3, (2, 1, 8, 8))

"""Structural similarity of two images."""

from _truth_foreign import stub

stub("torchvision")

import torch  # noqa: E402
from piq.ssim import SSIMLoss  # noqa: E402

PACKAGES = ("piq",)

model = SSIMLoss(kernel_size=5)


def inputs():
    torch.manual_seed(1)
    return torch.rand(2, 3, 32, 32), torch.rand(2, 3, 32, 32)

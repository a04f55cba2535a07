"""A liquid network over a sequence."""

import torch
from ncps.torch import CfC
from ncps.wirings import AutoNCP

PACKAGES = ("ncps",)

torch.manual_seed(0)
model = CfC(8, AutoNCP(16, 4)).eval()


def inputs():
    torch.manual_seed(1)
    return (torch.rand(2, 6, 8),)

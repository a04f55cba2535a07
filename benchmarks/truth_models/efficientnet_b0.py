"""EfficientNet as it was first ported."""

import torch
from efficientnet_pytorch import EfficientNet

PACKAGES = ("efficientnet-pytorch",)

torch.manual_seed(0)
model = EfficientNet.from_name("efficientnet-b0", num_classes=10).eval()


def inputs():
    torch.manual_seed(1)
    return (torch.rand(1, 3, 64, 64),)

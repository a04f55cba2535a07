"""A U-Net with a ResNet encoder."""

from _truth_foreign import stub

stub("torchvision")

import segmentation_models_pytorch as smp  # noqa: E402
import torch  # noqa: E402

PACKAGES = ("segmentation-models-pytorch", "timm")

torch.manual_seed(0)
model = smp.Unet("resnet18", encoder_weights=None, classes=2).eval()


def inputs():
    torch.manual_seed(1)
    return (torch.rand(1, 3, 32, 32),)

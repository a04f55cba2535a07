"""timm's efficientnet_b0."""

from _truth_foreign import stub

stub("torchvision")

import timm  # noqa: E402
import torch  # noqa: E402

PACKAGES = ("timm",)

torch.manual_seed(0)
model = timm.create_model("efficientnet_b0", pretrained=False, num_classes=10).eval()


def inputs():
    torch.manual_seed(1)
    return (torch.rand(1, 3, 64, 64),)

"""timm's swin_tiny_patch4_window7_224."""

from _truth_foreign import stub

stub("torchvision")

import timm  # noqa: E402
import torch  # noqa: E402

PACKAGES = ("timm",)

torch.manual_seed(0)
model = timm.create_model("swin_tiny_patch4_window7_224", pretrained=False, num_classes=10).eval()


def inputs():
    torch.manual_seed(1)
    return (torch.rand(1, 3, 224, 224),)

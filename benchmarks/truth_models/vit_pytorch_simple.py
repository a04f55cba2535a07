"""A vision transformer."""

from _truth_foreign import stub

stub("torchvision")

import torch  # noqa: E402
from vit_pytorch import SimpleViT  # noqa: E402

PACKAGES = ("vit-pytorch", "einops")

torch.manual_seed(0)
model = SimpleViT(image_size=32, patch_size=8, num_classes=10, dim=64, depth=2, heads=2, mlp_dim=64).eval()


def inputs():
    torch.manual_seed(1)
    return (torch.rand(2, 3, 32, 32),)

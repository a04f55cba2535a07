"""A vision transformer for images of several sizes."""

from _truth_foreign import stub

stub("torchvision")

import torch  # noqa: E402
from vit_pytorch.na_vit import NaViT  # noqa: E402

PACKAGES = ("vit-pytorch", "einops")

torch.manual_seed(0)
model = NaViT(image_size=32, patch_size=8, num_classes=10, dim=64, depth=1, heads=2, mlp_dim=64).eval()


def inputs():
    torch.manual_seed(1)
    return ([[torch.rand(3, 32, 16), torch.rand(3, 16, 16)], [torch.rand(3, 16, 32)]],)

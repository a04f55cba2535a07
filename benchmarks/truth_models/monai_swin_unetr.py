"""A Swin transformer for segmentation."""

import torch
from monai.networks.nets import SwinUNETR

PACKAGES = ("monai", "einops")

torch.manual_seed(0)
model = SwinUNETR(
    in_channels=1, out_channels=2, feature_size=12, spatial_dims=2, depths=(1, 1, 1, 1), num_heads=(1, 1, 2, 2)
).eval()


def inputs():
    torch.manual_seed(1)
    return (torch.rand(1, 1, 64, 64),)

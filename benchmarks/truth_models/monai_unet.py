"""A 3D U-Net."""

import torch
from monai.networks.nets import UNet

PACKAGES = ("monai",)

torch.manual_seed(0)
model = UNet(spatial_dims=3, in_channels=1, out_channels=2, channels=(4, 8, 16), strides=(2, 2), num_res_units=1).eval()


def inputs():
    torch.manual_seed(1)
    return (torch.rand(1, 1, 16, 16, 16),)

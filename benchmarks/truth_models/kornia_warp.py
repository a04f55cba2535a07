"""A perspective warp from four points."""

import torch
from kornia.geometry import transform

PACKAGES = ("kornia", "kornia-rs")


def model(image, source, target):
    matrix = transform.get_perspective_transform(source, target)
    return transform.warp_perspective(image, matrix, (16, 16))


def inputs():
    torch.manual_seed(1)
    corners = torch.tensor([[[0.0, 0.0], [15.0, 0.0], [15.0, 15.0], [0.0, 15.0]]])
    return torch.rand(1, 3, 16, 16), corners, corners + torch.rand(1, 4, 2)

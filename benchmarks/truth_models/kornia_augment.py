"""Augmentations of images on tensors."""

import torch
from kornia import augmentation

PACKAGES = ("kornia", "kornia-rs")

model = augmentation.AugmentationSequential(
    augmentation.RandomHorizontalFlip(p=0.5), augmentation.ColorJiggle(0.1, 0.1, 0.1, 0.1, p=1.0), data_keys=["input"]
)


def inputs():
    torch.manual_seed(1)
    return (torch.rand(2, 3, 16, 16),)

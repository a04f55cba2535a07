"""A small residual convolutional network: Conv, BatchNorm and ReLU blocks, pooling, a linear head.

ctrace finds: compiled. One graph, no break. The convolutions stay external calls; what lies between two of them
(BatchNorm and ReLU, in places with the sum over the shortcut or the pooling) is one generated kernel each.
"""

import torch
from torch import Tensor, nn

BATCH, IMAGE, CHANNELS, CLASSES = 4, 32, 16, 10


class ResidualBlock(nn.Module):
    """Two convolutions beside a shortcut; halves the image where the channels grow."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        stride = 1 if before == after else 2
        self.conv1 = nn.Conv2d(before, after, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(after)
        self.shortcut = nn.Identity() if stride == 1 else nn.Conv2d(before, after, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out = nn.functional.relu(self.norm1(self.conv1(x)))
        out = self.norm2(self.conv2(out))
        return nn.functional.relu(out + self.shortcut(x))


class ConvNet(nn.Module):
    """Classifies images of shape (batch, 3, height, width)."""

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU())
        self.blocks = nn.Sequential(ResidualBlock(channels, channels), ResidualBlock(channels, 2 * channels))
        self.head = nn.Linear(2 * channels, classes)

    def forward(self, images: Tensor) -> Tensor:
        features = self.blocks(self.stem(images))
        return self.head(features.mean(dim=(2, 3)))


def model() -> nn.Module:
    return ConvNet(CHANNELS, CLASSES).eval()


def inputs() -> tuple[Tensor]:
    return (torch.rand(BATCH, 3, IMAGE, IMAGE),)

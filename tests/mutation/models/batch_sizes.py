"""A classifier that is called with one batch size after another, so that its batch becomes symbolic."""

import torch
from torch import Tensor, nn

FEATURES, HIDDEN, CLASSES = 16, 32, 10


def probabilities(logits: Tensor, temperature: float = 1.0) -> Tensor:
    """A softmax with a temperature."""
    return torch.softmax(logits / temperature, dim=-1)


class Hidden(nn.Module):
    """One hidden layer with a shortcut."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = nn.Linear(width, width)

    def forward(self, features: Tensor) -> Tensor:
        return features + torch.relu(self.inner(features))


class Classifier(nn.Module):
    """Returns class probabilities of shape (batch, classes)."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Linear(FEATURES, HIDDEN)
        self.layers = nn.ModuleList(Hidden(HIDDEN) for _ in range(2))
        self.head = nn.Linear(HIDDEN, CLASSES)

    def forward(self, features: Tensor) -> Tensor:
        hidden = torch.tanh(self.stem(features))
        for layer in self.layers:
            hidden = layer(hidden)
        return probabilities(self.head(hidden), 2.0)


def batch(size: int) -> tuple[Tensor]:
    return (torch.rand(size, FEATURES),)


def model() -> nn.Module:
    return Classifier().eval()


def inputs() -> tuple[Tensor]:
    return batch(4)


scenarios = {"batch of 8": lambda: batch(8), "batch of 16": lambda: batch(16)}

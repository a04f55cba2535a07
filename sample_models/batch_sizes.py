"""A classifier that is called with one batch size after another.

ctrace finds: compiled, with two recompiles of `forward`. The batch of 8 does not fit the graph made for 4, so Dynamo
makes the dimension symbolic, and 16 then reuses that graph. A single sample needs another graph: by default,
Dynamo specializes on the sizes 0 and 1. With `torch._dynamo.maybe_mark_dynamic(features, 0)` on every input
one recompile is left, the one for the single sample.
"""

import torch
from torch import Tensor, nn

FEATURES, HIDDEN, CLASSES = 32, 64, 10


class Classifier(nn.Module):
    """Returns class probabilities of shape (batch, classes)."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Linear(FEATURES, HIDDEN)
        self.head = nn.Linear(HIDDEN, CLASSES)

    def forward(self, features: Tensor) -> Tensor:
        hidden = torch.relu(self.hidden(features))
        return self.head(hidden).softmax(dim=-1)


def batch(size: int) -> tuple[Tensor]:
    return (torch.rand(size, FEATURES),)


def model() -> nn.Module:
    return Classifier().eval()


def inputs() -> tuple[Tensor]:
    return batch(4)


scenarios = {
    "batch of 8": lambda: batch(8),
    "batch of 16": lambda: batch(16),
    "single sample": lambda: batch(1),
}

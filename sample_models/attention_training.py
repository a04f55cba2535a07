"""Self-attention written by hand, and the loss of one training step over it.

Made for `--train`, which calls `.sum().backward()` over the outputs: here one scalar, the loss.

ctrace finds: compiled. One Dynamo graph; AOTAutograd traces it and its gradient as one joint graph and splits that
into a forward and a backward graph, each with its own kernels. The softmax is one kernel forward and one backward.
"""

import math

import torch
from torch import Tensor, nn

BATCH, SEQUENCE, WIDTH = 4, 64, 64


class SelfAttention(nn.Module):
    """Single-head attention over tokens of shape (batch, sequence, width)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.output = nn.Linear(width, width)
        self.scale = 1 / math.sqrt(width)

    def forward(self, tokens: Tensor) -> Tensor:
        scores = self.query(tokens) @ self.key(tokens).transpose(-2, -1) * self.scale
        exponentials = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
        weights = exponentials / exponentials.sum(dim=-1, keepdim=True)
        return self.output(weights @ self.value(tokens))


class TrainingStep(nn.Module):
    """Attends to the tokens and returns the mean squared distance to the target, a scalar."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, tokens: Tensor, target: Tensor) -> Tensor:
        return nn.functional.mse_loss(self.network(tokens), target)


def model() -> nn.Module:
    return TrainingStep(SelfAttention(WIDTH))


def inputs() -> tuple[Tensor, Tensor]:
    return torch.rand(BATCH, SEQUENCE, WIDTH), torch.rand(BATCH, SEQUENCE, WIDTH)

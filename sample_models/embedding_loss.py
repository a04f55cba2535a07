"""A bigram language model: an embedding, a linear layer and the cross-entropy of the next token.

ctrace finds: compiled. One graph, no break. Two generated kernels, the embedding's look-up and the loss with its
log-softmax, around one external matrix product. With `--train` there are two more kernels in the backward graph.
"""

import torch
from torch import Tensor, nn

BATCH, SEQUENCE, WIDTH, VOCABULARY = 4, 32, 64, 256


class BigramModel(nn.Module):
    """Returns the mean loss, a scalar, of predicting every token from the one before it."""

    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        logits = self.head(self.embedding(tokens[:, :-1]))
        return nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def model() -> nn.Module:
    return BigramModel(VOCABULARY, WIDTH)


def inputs() -> tuple[Tensor]:
    return (torch.randint(VOCABULARY, (BATCH, SEQUENCE)),)

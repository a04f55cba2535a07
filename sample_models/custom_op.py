"""A vector quantizer that looks up its codes with a custom operator, which has a fake implementation.

ctrace finds: compiled. The operator is one opaque node of the one graph, and Inductor calls it between a matrix product
and one generated kernel. The fake gives its result's shape while tracing, so nothing breaks.
"""

import torch
from torch import Tensor, nn

BATCH, WIDTH, CODES = 16, 32, 64


@torch.library.custom_op("sample_models::nearest_code", mutates_args=())
def nearest_code(vectors: Tensor, codebook: Tensor) -> Tensor:
    """The index of the closest row of the codebook for every vector, of shape (batch,)."""
    return torch.cdist(vectors, codebook).argmin(dim=-1)


@nearest_code.register_fake
def _(vectors: Tensor, codebook: Tensor) -> Tensor:
    return vectors.new_empty(vectors.shape[:-1], dtype=torch.int64)


class VectorQuantizer(nn.Module):
    """Replaces every vector by its nearest code and lets gradients pass straight through."""

    def __init__(self, codes: int, width: int) -> None:
        super().__init__()
        self.project = nn.Linear(width, width)
        self.codebook = nn.Parameter(torch.randn(codes, width))

    def forward(self, x: Tensor) -> Tensor:
        vectors = self.project(x)
        codes = nn.functional.embedding(nearest_code(vectors, self.codebook), self.codebook)
        return vectors + (codes - vectors).detach()


def model() -> nn.Module:
    return VectorQuantizer(CODES, WIDTH).eval()


def inputs() -> tuple[Tensor]:
    return (torch.rand(BATCH, WIDTH),)

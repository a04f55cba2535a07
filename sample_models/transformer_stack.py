"""A stack of pre-norm transformer blocks over scaled_dot_product_attention.

ctrace finds: compiled. Dynamo unrolls the loop over the blocks, so all LAYERS of them are one graph of 18 operations a
layer, and the guards grow with the depth as well. No break, no recompile.
"""

import torch
from torch import Tensor, nn

LAYERS, HEADS, WIDTH = 12, 4, 64
BATCH, SEQUENCE = 2, 32


class Block(nn.Module):
    """Causal self-attention and a feed-forward network, each behind a LayerNorm and added to its input."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.output = nn.Linear(width, width, bias=False)
        self.mlp_norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attend(self.attention_norm(x))
        return x + self.mlp(self.mlp_norm(x))

    def attend(self, x: Tensor) -> Tensor:
        per_head = self.qkv(x).unflatten(-1, (3, self.heads, -1)).transpose(1, 3)  # (batch, heads, 3, sequence, width)
        query, key, value = per_head.unbind(2)
        attended = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.output(attended.transpose(1, 2).flatten(2))


class TransformerStack(nn.Module):
    """Maps vectors of shape (batch, sequence, width) to vectors of the same shape."""

    def __init__(self, layers: int, width: int, heads: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x


def model() -> nn.Module:
    return TransformerStack(LAYERS, WIDTH, HEADS).eval()


def inputs() -> tuple[Tensor]:
    return (torch.rand(BATCH, SEQUENCE, WIDTH),)

"""The models of memory.py: MEMORY_MODEL selects one, MEMORY_DEVICE its device, MEMORY_DTYPE its dtype.

MEMORY_SCALE enlarges the batch, so that what libraries keep is small beside it. Nothing is downloaded: weights are
random. Each model has a loss and an optimizer.
"""

import os
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as torch's documentation writes it
from torch import Tensor, nn

DEVICE = os.environ.get("MEMORY_DEVICE", "cpu")
DTYPE: torch.dtype = getattr(torch, os.environ.get("MEMORY_DTYPE", "float32"))
SCALE = int(os.environ.get("MEMORY_SCALE", "1"))
WIDTH, HEADS, LENGTH, WORDS = 128, 4, 128, 4_000


class Attention(nn.Module):
    """Causal self-attention, with SDPA or by hand."""

    def __init__(self, *, sdpa: bool) -> None:
        super().__init__()
        self.sdpa = sdpa
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        if self.sdpa:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
            scores = (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).masked_fill(mask, float("-inf"))
            y = torch.softmax(scores.float(), -1).to(v.dtype) @ v
        result: Tensor = self.out(y.transpose(1, 2).flatten(2))
        return result


class Block(nn.Module):
    """One layer of a transformer."""

    def __init__(self, *, sdpa: bool, dropout: float = 0.0) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = Attention(sdpa=sdpa)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.dropout(self.attention(self.first(x)))
        result: Tensor = x + self.dropout(self.down(F.gelu(self.up(self.second(x)))))
        return result


class Language(nn.Module):
    """A language model that returns its loss."""

    def __init__(self, *, sdpa: bool, dropout: float = 0.0) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList(Block(sdpa=sdpa, dropout=dropout) for _ in range(4))
        self.head = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, words: Tensor) -> Tensor:
        x = self.embed(words)
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(x).float().flatten(0, 1), words.flatten())


class Residual(nn.Module):
    """Convolutions around a residual connection."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.one = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.two = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm, self.last = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = F.relu(x + self.last(self.two(F.relu(self.norm(self.one(x))))))
        return result


class Images(nn.Module):
    """A small residual network."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 3, padding=1)
        self.blocks = nn.Sequential(Residual(32), nn.MaxPool2d(2), Residual(32))
        self.head = nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        return F.log_softmax(self.head(self.blocks(self.stem(x)).mean((2, 3))), -1)[:, 0].mean()


class Gated(nn.Module):
    """Gated layers, as in newer language models."""

    def __init__(self) -> None:
        super().__init__()
        self.gates = nn.ModuleList(nn.Linear(WIDTH, 8 * WIDTH) for _ in range(3))
        self.downs = nn.ModuleList(nn.Linear(4 * WIDTH, WIDTH) for _ in range(3))
        self.norms = nn.ModuleList(nn.RMSNorm(WIDTH) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        for norm, gate, down in zip(self.norms, self.gates, self.downs, strict=True):
            value, by = gate(norm(x)).chunk(2, -1)
            x = x + down(F.silu(by) * value)
        return x.float().square().mean()


class Mixer(nn.Module):
    """Mixes along tokens and along channels."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.channels = nn.Linear(LENGTH, LENGTH), nn.Linear(WIDTH, WIDTH)
        self.norm, self.last = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(3):
            x = x + F.gelu(self.tokens(self.norm(x).transpose(1, 2))).transpose(1, 2)
            x = x + F.gelu(self.channels(self.last(x)))
        return x.float().square().mean()


class Folding(nn.Module):
    """Down and up again, with connections across."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(3, 32, 4, stride=2, padding=1)
        self.middle = nn.Conv2d(32, 32, 3, padding=1)
        self.up = nn.ConvTranspose2d(32, 16, 4, stride=2, padding=1)
        self.last = nn.Conv2d(19, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        h = F.silu(self.down(x))
        h = F.silu(self.middle(h)) + h
        result: Tensor = (self.last(torch.cat([F.silu(self.up(h)), x], 1)) - x).float().abs().mean()
        return result


class Recurrent(nn.Module):
    """A gated recurrence, written out step by step."""

    def __init__(self) -> None:
        super().__init__()
        self.input, self.state = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(WIDTH, 2 * WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros_like(x[:, 0])
        for step in self.input(x).unbind(1)[:16]:
            gate, value = (step + self.state(h)).chunk(2, -1)
            h = torch.lerp(h, torch.tanh(value), torch.sigmoid(gate))
        result: Tensor = h.float().square().mean()
        return result


class Perceptron(nn.Module):
    """Wide layers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(each for _ in range(4) for each in (nn.Linear(512, 512), nn.GELU())))

    def forward(self, x: Tensor) -> Tensor:
        return torch.softmax(self.layers(x).float(), -1).square().mean()


class Vision(nn.Module):
    """A transformer of patches."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, 8, stride=8)
        self.blocks = nn.ModuleList(Block(sdpa=True) for _ in range(3))
        self.head = nn.Linear(WIDTH, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        result: Tensor = self.head(x.mean(1)).float().square().mean()
        return result


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], bool]] = {
    "perceptron": (Perceptron, (1024, 512), False),
    "gated": (Gated, (8, LENGTH, WIDTH), False),
    "mixer": (Mixer, (16, LENGTH, WIDTH), False),
    "recurrent": (Recurrent, (256, 16, WIDTH), False),
    "images": (Images, (8, 3, 32, 32), False),
    "folding": (Folding, (4, 3, 64, 64), False),
    "vision": (Vision, (8, 3, 64, 64), False),
    "language": (lambda: Language(sdpa=True), (4, LENGTH), True),
    "language by hand": (lambda: Language(sdpa=False), (4, LENGTH), True),
    "language with dropout": (lambda: Language(sdpa=True, dropout=0.1), (4, LENGTH), True),
}
"""Each with the shape of its input, and whether that has words."""


def model() -> nn.Module:
    """Return the selected model."""
    return MODELS[_name()][0]().to(DEVICE, DTYPE)


def inputs() -> tuple[Any, ...]:
    """Return new inputs."""
    _, shape, has_words = MODELS[_name()]
    shape = (shape[0] * SCALE, *shape[1:])
    if has_words:
        return (torch.randint(0, WORDS, shape, device=DEVICE),)
    return (torch.randn(shape, device=DEVICE, dtype=DTYPE),)


def optimizer(model: nn.Module) -> torch.optim.Optimizer:
    """Return the optimizer whose step ends a training step."""
    return torch.optim.AdamW(model.parameters())


def _name() -> str:
    return os.environ.get("MEMORY_MODEL", "perceptron")

"""Capture models with changing sizes, with all of Inductor and as `ctrace check` does, and write both results.

    python dynamic_zoo.py OUTPUT.json NAME...

Run by test_inductor_guards.py, in a separate process. Each model uses symbolic sizes in another way.
"""

import json
import re
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import nn
from torch.nn import functional

from ctrace.inspector.api import observe
from ctrace.inspector.facts.session import Session
from ctrace.inspector.runs.capture_request import Options


@dataclass(frozen=True)
class Dynamic:
    """A model, the inputs of its calls in order, and its options."""

    model: Callable[..., Any]
    inputs: list[Any]
    train: bool = False
    dynamic: bool | None = None
    mode: str | None = None


class UNet(nn.Module):
    """Halves twice, and doubles again: its skips hold only for sizes that 4 divides."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.down = nn.Conv2d(width, width, 3, padding=1, stride=2)
        self.deep = nn.Conv2d(width, width, 3, padding=1, stride=2)
        self.norm = nn.GroupNorm(2, width)
        self.up = nn.Conv2d(2 * width, width, 3, padding=1)
        self.last = nn.Conv2d(2 * width, 3, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = functional.silu(self.first(x))
        down = functional.silu(self.norm(self.down(first)))
        deep = functional.interpolate(functional.silu(self.deep(down)), scale_factor=2.0)
        up = functional.silu(self.up(torch.cat([deep, down], 1)))
        wide = functional.interpolate(up, scale_factor=2.0, mode="bilinear")
        return self.last(torch.cat([wide, first], 1))


class Attention(nn.Module):
    """Attention whose mask and reshapes follow the sequence."""

    def __init__(self, width: int = 16, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.project = nn.Linear(width, 3 * width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        split = self.project(self.norm(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        scores = (query @ key.transpose(-1, -2)) / width**0.5
        scores = scores.masked_fill(torch.ones(length, length, dtype=torch.bool).triu(1), float("-inf"))
        return x + (scores.softmax(-1) @ value).transpose(1, 2).reshape(batch, length, width)


class Recurrent(nn.Module):
    """Runs three steps of a cell over a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state = x.new_zeros(x.shape[0], 8)
        for step in range(3):
            state = self.cell(x[:, step], state)
        return state


class Tokens(nn.Module):
    """Embeds, drops out and counts a loss."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 8)
        self.drop = nn.Dropout(0.1)
        self.classify = nn.Linear(8, 50)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        logits = self.classify(self.drop(self.embed(tokens)))
        return functional.cross_entropy(logits.view(-1, 50), tokens.view(-1))


class Conv(nn.Module):
    """Pads, convolves and pools."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        padded = functional.pad(functional.relu(self.conv(x)), (1, 2, 1, 2), mode="reflect")
        return functional.max_pool2d(functional.avg_pool2d(padded, 2), 2).mean((2, 3))


def windows(x: torch.Tensor) -> torch.Tensor:
    batch, height, width, channels = x.shape
    parts = x.view(batch, height // 4, 4, width // 4, 4, channels).permute(0, 1, 3, 2, 4, 5)
    return parts.reshape(-1, 16, channels).softmax(1).reshape(batch, height, width, channels)


def spectrum(x: torch.Tensor) -> torch.Tensor:
    return torch.fft.rfft(x.unfold(-1, 16, 8) * torch.hann_window(16)).abs().log1p().mean(-1)


def gated(x: torch.Tensor) -> torch.Tensor:
    left, right = x.chunk(2, dim=1)
    return torch.cat([functional.glu(x, 1), left * right], 1)


def overlapping(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    return x.sum(0) + y.sum(0)


def scaled(x: torch.Tensor, factor: float) -> torch.Tensor:
    return functional.interpolate(x, scale_factor=factor)


def counted(x: torch.Tensor) -> torch.Tensor:
    return torch.nonzero(x).sum(0) + x.shape[0]


def _each(sizes: tuple[int, ...], make: Callable[[int], Any]) -> list[Any]:
    return [made if isinstance(made, tuple) else (made,) for made in map(make, sizes)]


def _views(size: int) -> tuple[torch.Tensor, torch.Tensor]:
    base = torch.rand(2 * size, 4)
    return base[:size], base[size // 2 : size + 1]


def _tokens(size: int) -> torch.Tensor:
    return torch.randint(50, (size, 7))


_PIXELS = (32, 48, 64)
ZOO: dict[str, Dynamic] = {
    "unet": Dynamic(UNet().eval(), _each(_PIXELS, lambda n: torch.rand(1, 3, n, n))),
    "attention": Dynamic(Attention(), _each((3, 5, 9), lambda n: torch.rand(n, n + 1, 16))),
    "attention_trained": Dynamic(Attention(), _each((8, 12, 100), lambda n: torch.rand(2, n, 16)), train=True),
    "recurrent_trained": Dynamic(Recurrent(), _each((3, 5, 9), lambda n: torch.rand(n, n + 2, 8)), train=True),
    "tokens_trained": Dynamic(Tokens(), _each((3, 5, 9), _tokens), train=True),
    "conv": Dynamic(Conv(), _each((16, 20, 25), lambda n: torch.rand(2, 3, n, n))),
    "half": Dynamic(nn.Linear(8, 8).bfloat16(), _each((3, 5, 1), lambda n: torch.rand(n, 8).bfloat16())),
    "sum": Dynamic(lambda x: x.sum(), _each((10, 20, 5000), torch.rand)),
    "half_sum": Dynamic(lambda x: x.sum(1), _each((10, 20, 5000), lambda n: torch.rand(3, n).bfloat16())),
    "normalized": Dynamic(lambda x: (x - x.mean(1, True)) / x.std(1, keepdim=True), _each((10, 20, 9000), lambda n: torch.rand(4, n))),
    "softmax_both": Dynamic(lambda x: x.softmax(0) + x.softmax(1), _each((10, 20, 90), lambda n: torch.rand(n, n + 1))),
    "ordered": Dynamic(lambda x: x.sort(1)[0] + x.cumsum(1) + x.topk(1, 1)[0], _each((10, 20, 90), lambda n: torch.rand(n, n + 1))),
    "windows": Dynamic(windows, _each((8, 16, 24), lambda n: torch.rand(1, n, n, 3))),
    "spectrum": Dynamic(spectrum, _each((160, 320, 640), lambda n: torch.rand(2, n))),
    "gated": Dynamic(gated, _each((4, 8, 10), lambda n: torch.rand(2, n, 3))),
    "paired": Dynamic(lambda x: x.reshape(x.shape[0] // 2, 2, -1).sum(1), _each((4, 8, 10), lambda n: torch.rand(n, 6))),
    "rolled": Dynamic(lambda x: torch.roll(x, (1, 2), (1, 2)) + x.flip(1), _each((8, 16, 24), lambda n: torch.rand(1, n, n))),
    "counted": Dynamic(counted, _each((8, 16, 24), torch.rand)),
    "overlapping": Dynamic(overlapping, _each((8, 16, 24), _views)),
    "scaled": Dynamic(scaled, [(torch.rand(1, 2, 8, 8), factor) for factor in (2.0, 1.5, 3.0, 2.5)]),
    "factor": Dynamic(lambda x, by: x * by, [(torch.rand(4), by) for by in (0.5, 0.7, 0.9)]),
    "taken": Dynamic(lambda x, by: x * (by + 1) if by > 0.6 else x + by, [(torch.rand(4), by) for by in (0.5, 0.7, 0.9, 0.3)]),
    "repeated": Dynamic(lambda x, n: x.repeat(n, 2)[n:], [(torch.rand(4, 2), n) for n in (3, 4, 7)]),
    "dynamic": Dynamic(lambda x: x.softmax(0).sum(1), _each((8, 16), lambda n: torch.rand(n, n)), dynamic=True),
    "static": Dynamic(lambda x: x.softmax(0).sum(1), _each((8, 16), lambda n: torch.rand(n, n)), dynamic=False),
    "tuned": Dynamic(nn.Linear(8, 8), _each((3, 5, 9), lambda n: torch.rand(n, 8)), mode="max-autotune"),
}  # fmt: skip


def captured(name: str, **options: Any) -> Session:
    """Capture a model of the zoo in this process."""
    one = ZOO[name]
    torch.manual_seed(0)
    asked = Options(train=one.train, dynamic=one.dynamic, mode=one.mode, **options)
    return observe(one.model, one.inputs, options=asked)


def seen(session: Session) -> dict[str, Any]:
    """Return the fields of a recompile that a check compares."""
    return {
        "graphs": [graph.id for graph in session.graphs],
        "recompiles": [
            (each.compilation, each.expected, [(cause.kind, cause.subject, cause.was, cause.now) for cause in each.causes])
            for each in session.recompiles
        ],
        "guards": {id_: _conditions(guards.text) for id_, guards in session.guards.items()},
        "limit": session.limit.hit,
        "failure": str(session.failure),
    }  # fmt: skip


def _conditions(text: str) -> list[str]:
    """Return the guards of a tree without addresses, which differ between two captures."""
    numbers = re.compile(r"0x[0-9a-f]+|\d{9,}|(?<=__builtins_dict___)\d+")
    lines = (numbers.sub("N", line.partition("  #")[0]).strip() for line in text.splitlines())
    return sorted(line for line in lines if "Guard latency" not in line)


def compared(name: str) -> dict[str, Any]:
    """Capture a model both ways, and count the graphs that a check generates code for."""
    from torch._inductor.graph import GraphLowering

    whole = captured(name)
    generated: list[str] = []
    original = GraphLowering.codegen

    def counted(lowering: GraphLowering) -> Any:
        generated.append(name)
        return original(lowering)

    with patch.object(GraphLowering, "codegen", counted):
        checked = captured(name, trace_only=True)
    left_out = captured(name, trace_only=True, inductor_guards=False)
    return {
        "whole": seen(whole),
        "checked": seen(checked),
        "left_out": seen(left_out),
        "added": {id_: list(added or ()) for id_, added in checked.inductor_guards.items()},
        "late": {id_: list(added) for id_, added in whole.late_guards.items()},
        "not_lowered": [id_ for id_, added in left_out.inductor_guards.items() if added is None],
        "generated": len(generated),
        "kept": [bool(checked.code), bool(checked.fusions), bool(checked.kernels), bool(checked.passes)],
        "problems": [each.what for each in checked.problems],
    }


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    Path(sys.argv[1]).write_text(json.dumps({name: compared(name) for name in sys.argv[2:]}))

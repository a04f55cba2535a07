"""Chains of operations in 16 bits, fused into one kernel: eager rounds after each, the kernel only at the end.

Each chain has one line, marked `# rounded`, whose rounding can change the result: what follows it before the last
line is exact. The variable ACCURACY_CHAIN names a chain and its dtype, as `scaled:bfloat16`.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - as everyone writes it


def scaled(x: Any, y: Any) -> Any:
    h = x * 1.7  # rounded
    return h + y


def gated(x: Any, y: Any) -> Any:
    gate = torch.sigmoid(x)  # rounded
    return gate * y


def gelu_product(x: Any, y: Any) -> Any:
    h = F.gelu(x)  # rounded
    h = -h
    return h * y


def residual(x: Any, y: Any) -> Any:
    h = x * y  # rounded
    h = F.relu(h)
    return x + h


def normed(x: Any, y: Any) -> Any:
    h = x + y  # rounded
    return F.layer_norm(h, (64,))


def rms(x: Any, y: Any) -> Any:
    h = x * 0.9  # rounded
    h = h.abs()
    return h * y + 0.0


def squares(x: Any, y: Any) -> Any:
    apart = x - y  # rounded
    return apart * apart


def soft(x: Any, y: Any) -> Any:
    h = torch.tanh(x)  # rounded
    h = torch.maximum(h, -h)
    return h - y


def swiglu(x: Any, y: Any) -> Any:
    h = F.silu(x)  # rounded
    h = h * 2.0
    return h * y


def sums(x: Any, y: Any) -> Any:
    h = torch.exp(x)  # rounded
    h = torch.where(y > 0, h, 0.0)
    return h.sum(-1)


CHAINS: dict[str, Callable[[Any, Any], Any]] = {
    each.__name__: each
    for each in (
        scaled, gated, gelu_product, residual, normed, rms, squares, soft, swiglu, sums,
    )
}  # fmt: skip


def places() -> list[str]:
    """Return all chains in both dtypes."""
    return [f"{name}:{dtype}" for name in CHAINS for dtype in ("bfloat16", "float16")]


def rounded_line(place: str) -> int:
    """Return the line whose rounding is lost."""
    chain = CHAINS[place.partition(":")[0]]
    first = chain.__code__.co_firstlineno
    lines = Path(__file__).read_text().splitlines()
    return next(at for at in range(first, len(lines) + 1) if lines[at - 1].endswith("# rounded"))


class Chain(nn.Module):
    """A chain as a model."""

    def __init__(self, chain: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.chain = chain

    def forward(self, x: Any, y: Any) -> Any:
        return self.chain(x, y)


def made(place: str) -> tuple[nn.Module, Callable[[], tuple[Any, ...]]]:
    """Return the model of a chain, and what makes its inputs."""
    name, _, dtype = place.partition(":")
    return Chain(CHAINS[name]), lambda: tuple(torch.randn(2, 32, 64).to(getattr(torch, dtype)).unbind())


def is_left_out(place: str) -> bool:
    """Whether plain compiled code differs from eager in more than 2 % of its values, and with all roundings in none."""
    from torch._inductor import config

    model, inputs = made(place)
    torch.manual_seed(0)
    given = inputs()
    shares = []
    for emulated in (False, True):
        torch._dynamo.reset()
        with config.patch(emulate_precision_casts=emulated, force_disable_caches=True):
            shares.append(float((model(*given) != torch.compile(model)(*given)).float().mean()))
    return shares[0] > 0.02 and shares[1] == 0.0


if "ACCURACY_CHAIN" in os.environ:
    model, inputs = made(os.environ["ACCURACY_CHAIN"])

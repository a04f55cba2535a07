"""A cross-entropy over a large vocabulary, part by part: a change that may lower the peak, and is tried.

The loss of all rows keeps the log-probabilities of all for the backward. Of a part of the rows these are few, and a
checkpoint lets the backward compute them again.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ctrace.inspector.capture.core.patch import patched

CHUNKS = 8
VOCABULARY = 32_000
"""The fewest classes for which it is tried: below, the logits are rarely the largest tensors."""


def chunked(original: Callable[..., Any], used: list[int]) -> Callable[..., Any]:
    """Return a cross-entropy that computes a large one part by part, with the same sum; `used` grows when it does."""
    import torch
    from torch.utils.checkpoint import checkpoint

    def part(logits: Any, target: Any, ignore_index: int, label_smoothing: float) -> Any:
        return original(logits, target, ignore_index=ignore_index, reduction="sum", label_smoothing=label_smoothing)

    def cross_entropy(
        input: Any,
        target: Any,
        weight: Any = None,
        size_average: Any = None,
        ignore_index: int = -100,
        reduce: Any = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> Any:
        is_large = input.dim() == 2 and input.shape[1] >= VOCABULARY and input.shape[0] >= CHUNKS
        is_plain = weight is None and size_average is None and reduce is None and target.dim() == 1
        if not is_large or not is_plain or reduction not in ("mean", "sum"):
            return original(
                input,
                target,
                weight=weight,
                size_average=size_average,
                ignore_index=ignore_index,
                reduce=reduce,
                reduction=reduction,
                label_smoothing=label_smoothing,
            )
        used.append(1)
        total = torch.zeros((), dtype=input.dtype, device=input.device)
        for logits, labels in zip(input.chunk(CHUNKS), target.chunk(CHUNKS), strict=True):
            total = total + checkpoint(part, logits, labels, ignore_index, label_smoothing, use_reentrant=False)
        return total if reduction == "sum" else total / (target != ignore_index).sum()

    return cross_entropy


@contextmanager
def chunked_cross_entropy(used: list[int]) -> Iterator[None]:
    """Let `torch.nn.functional.cross_entropy` compute large losses part by part."""
    from torch.nn import functional

    with patched(functional, "cross_entropy", chunked(functional.cross_entropy, used)):
        yield

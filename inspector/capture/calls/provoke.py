"""Calls that commonly cause recompilations, as far as the target's inputs allow them."""

from collections.abc import Iterator
from typing import Any

from ctrace.inspector.capture.calls.tensors import tensors
from ctrace.inspector.capture.calls.variations import Make, varied
from ctrace.inspector.capture.calls.ways import Call, Way
from ctrace.inspector.errors import TargetError
from ctrace.inspector.facts.scenarios import ScenarioKind
from ctrace.inspector.runs.inputs import Choice, Vary

_SEQUENCE_DIMENSIONS = {True: 3, False: 2}
"""Number of dimensions of a batch of sequences: True for floating point (features), False for integers (token ids)."""


def provoked(model: Any, base: Make, call: Call) -> dict[str, Way]:
    """Make a scenario for each suspect that changes `call`."""
    found: dict[str, Way] = {}
    for vary in _suspects(model, tensors(call)):
        for name, way in varied(base, vary, ScenarioKind.PROVOKED).items():
            if _applies(way):
                found.setdefault(name, way)
    return found


def _applies(way: Way) -> bool:
    if way.training is not None or way.grad is not None:
        return True
    try:
        way.make()
    except TargetError:
        return False
    return True


def _suspects(model: Any, inputs: list[Any]) -> Iterator[Vary | Choice]:
    import torch

    yield from _sizes(inputs)
    if isinstance(model, torch.nn.Module):
        yield Choice("mode", ("eval" if model.training else "train",))
    if torch.is_grad_enabled():
        yield Choice("grad", ("off",))
    yield Choice("stride", ("noncontiguous",))
    floating = [tensor.dtype for tensor in inputs if tensor.is_floating_point()]
    if floating:
        yield Choice("dtype", ("float64" if floating[0] is torch.float32 else "float32",))


def _sizes(inputs: list[Any]) -> Iterator[Vary]:
    """Make scenarios with batch size 1, an odd batch size, and sequences of double length."""
    batch = next((tensor.shape[0] for tensor in inputs if tensor.dim()), 0)
    if batch:
        odd = batch + 1 + batch % 2
        yield Vary(0, tuple(size for size in (1, odd) if size != batch))
    long = [tensor.shape[1] for tensor in inputs if tensor.dim() == _SEQUENCE_DIMENSIONS[tensor.is_floating_point()]]
    if long and long[0]:
        yield Vary(1, (2 * long[0],))

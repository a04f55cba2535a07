"""Hold what a compiled call gave against what the same call gave in eager."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

from ctrace.inspector.capture.calling import Results

_BUILT = {"float64": 1e-7, "complex128": 1e-7, "float32": 1e-4, "complex64": 1e-4, "float16": 1e-2, "bfloat16": 5e-2}
"""Largest difference for kernels that were built, which round otherwise, as a part of the largest value."""
_EMITTED = {"float64": 1e-9, "complex128": 1e-9, "float32": 1e-5, "complex64": 1e-5, "float16": 2e-3, "bfloat16": 2e-2}
"""The same for graphs that ran eagerly; torch.testing.assert_close has 1e-7, 1.3e-6, 1e-3 and 1.6e-2 of each value."""
_DEEP = 4


def taken(value: Any) -> Any:
    """Copy results, so that nothing that happens later changes them."""
    import torch
    from torch.utils import _pytree

    return _pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.detach().clone(), value)


def difference(eager: Results, compiled: Results, *, built: bool) -> str | None:
    """Say in a few words how results differ; None: they do not."""
    tolerances = _BUILT if built else _EMITTED
    outputs = _Compared(tolerances).differences(eager.outputs, compiled.outputs, "the result", _DEEP)
    inputs = _Compared(tolerances).differences(eager.inputs, compiled.inputs, "inputs", 1)
    # A gradient that is zero but for rounding is measured by the others.
    largest = max((_largest(grad) for grad in eager.gradients if grad is not None), default=0.0)
    gradients = _Compared(tolerances, largest).differences(eager.gradients, compiled.gradients, "gradients", 1)
    return next(chain(outputs, inputs, gradients), None)


@dataclass(frozen=True, slots=True)
class _Compared:
    """Compares within tolerances, which are parts of a tensor's largest value, or of `scale` if that is larger."""

    tolerances: dict[str, float]
    scale: float = 1e-3

    def differences(self, one: Any, other: Any, what: str, deep: int) -> Iterator[str]:  # noqa: C901 - one case a kind of value
        """List what differs."""
        import torch

        if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
            yield from self._tensors(one, other, what)
        elif type(one) is not type(other):
            yield f"{what} is a {type(one).__name__} in eager, a {type(other).__name__} compiled"
        elif isinstance(one, list | tuple):
            if len(one) != len(other):
                yield f"{what} has {len(one)} items in eager, {len(other)} compiled"
            for index, (left, right) in enumerate(zip(one, other, strict=False)):
                yield from self.differences(left, right, f"{what}[{index}]", deep)
        elif isinstance(one, dict):
            if one.keys() != other.keys():
                yield f"{what} has other keys in eager than compiled"
            for key in one.keys() & other.keys():
                yield from self.differences(one[key], other[key], f"{what}[{key!r:.40}]", deep)
        elif isinstance(one, bool | int | float | complex | str | bytes):
            if one != other and not _close(one, other):
                yield f"{what} is {one!r:.40} in eager, {other!r:.40} compiled"
        elif deep and hasattr(one, "__dict__") and not callable(one):
            yield from self.differences(vars(one), vars(other), what, deep - 1)

    def _tensors(self, one: Any, other: Any, what: str) -> Iterator[str]:
        import torch

        if one.shape != other.shape or one.dtype != other.dtype:
            yield f"{what} is {_described(one)} in eager, {_described(other)} compiled"
            return
        if one.is_meta or one.layout is not torch.strided or not one.numel() or torch.equal(one, other):
            return
        tolerance = self.tolerances.get(str(one.dtype).removeprefix("torch."), 0.0)
        around = tolerance * max(_largest(one), self.scale) if tolerance else 0.0
        if tolerance and _extent(one - other) <= around:
            return  # the common case, which need not look at each value; NaN and infinities are no such case
        differing = int((~torch.isclose(one, other, rtol=tolerance, atol=around, equal_nan=True)).sum())
        if differing:
            yield f"{what} differs in {differing} of {one.numel()} values{_by(one, other)}"


def _close(one: Any, other: Any) -> bool:
    if isinstance(one, float):
        return math.isclose(one, other, rel_tol=1e-5) or (math.isnan(one) and math.isnan(other))
    return False


def _by(one: Any, other: Any) -> str:
    return f", by up to {_largest(one - other):.3g}" if one.is_floating_point() or one.is_complex() else ""


def _largest(tensor: Any) -> float:
    """Give the largest finite magnitude."""
    if not tensor.numel():
        return 0.0
    extent = _extent(tensor)
    if math.isfinite(extent):
        return extent
    finite = tensor.detach().abs()
    finite = finite[finite.isfinite()]
    return float(finite.max()) if finite.numel() else 0.0


def _extent(tensor: Any) -> float:
    """Give the largest magnitude, infinities among them; NaN if there is one."""
    plain = tensor.detach()
    least, most = (plain.abs() if plain.is_complex() else plain).aminmax()
    return max(-float(least), float(most))


def _described(tensor: Any) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"

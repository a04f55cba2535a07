"""Compare the results of an eager call directly with those of the same call compiled, value by value."""

import math
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from ctrace.inspector.capture.calls.calling import Results
from ctrace.inspector.capture.comparing.copies import copy_of
from ctrace.inspector.capture.comparing.precision import FLOAT32, Precision, coarser, precision_of

_DEEP = 4
_SLICE = 1 << 20
"""How many values to compare at once, since float64 copies of all of them may need more memory than the model."""
_SMALL = 1e-3
"""Without a reference, treat smaller values as if they were this large."""
_GROUPS = {"outputs": "the result", "inputs": "inputs", "buffers": "buffers", "gradients": "gradients"}
"""Fields of `Results` in the order of comparison, each with its name in sentences."""

Path = tuple[Any, ...]


def taken(results: Results) -> Results:
    """Copy results, so that later calls cannot change them."""
    import torch
    from torch.utils import _pytree

    def copied(value: Any) -> Any:
        return _pytree.tree_map_only(torch.Tensor, copy_of, value)

    return Results(*map(copied, (results.outputs, results.inputs, results.gradients, results.buffers)))


class Leaf(Struct, frozen=True):
    """One place in both results: a value, or two containers that differ in kind or size."""

    name: str
    path: Path
    eager: Any
    compiled: Any

    @property
    def group(self) -> str:
        """The field of `Results` that the place belongs to."""
        return str(self.path[0])


def leaves(eager: Results, compiled: Results) -> Iterator[Leaf]:
    """List the values of both results, place by place."""
    for group, name in _GROUPS.items():
        deep = _DEEP if group == "outputs" else 1
        yield from _walk(Leaf(name, (group,), getattr(eager, group), getattr(compiled, group)), deep)


def _walk(leaf: Leaf, deep: int) -> Iterator[Leaf]:
    one, other = leaf.eager, leaf.compiled
    if type(one) is not type(other):
        yield leaf
    elif isinstance(one, list | tuple | dict):
        keys, others = _keys(one), _keys(other)
        if keys != others:
            yield leaf
        for key in (key for key in keys if key in others):
            named = f"{leaf.name}[{key!r:.40}]"
            yield from _walk(Leaf(named, (*leaf.path, key), one[key], other[key]), deep)
    elif deep and _has_attributes(one):
        yield from _walk(Leaf(leaf.name, leaf.path, vars(one), vars(other)), deep - 1)
    else:
        yield Leaf(leaf.name, leaf.path, dense(one), dense(other))


def _keys(container: Any) -> Any:
    return container.keys() if isinstance(container, dict) else range(len(container))


def _has_attributes(value: Any) -> bool:
    import torch

    return hasattr(value, "__dict__") and not callable(value) and not isinstance(value, torch.Tensor)


def dense(value: Any) -> Any:
    """Return a sparse, nested or quantized tensor as a plain one; any other value unchanged."""
    import torch

    if not isinstance(value, torch.Tensor) or value.is_meta:
        return value
    if value.is_nested:
        return value.values()
    if value.is_quantized:
        return value.dequantize()
    return value if value.layout is torch.strided else value.to_dense()


class _Absent:
    """Marks a place that results do not have."""


ABSENT = _Absent()


def found(results: Results, path: Path) -> Any:
    """Return the value at one place of results, or ABSENT if there is no such place."""
    value: Any = getattr(results, path[0])
    for key in path[1:]:
        inside = value if isinstance(value, list | tuple | dict) else getattr(value, "__dict__", {})
        try:
            value = inside[key]
        except LookupError:
            return ABSENT
    return dense(value)


def disagreeing(eager: Results, compiled: Results) -> list[Leaf]:
    """List the places where results differ by more than their dtype allows for two calls."""
    return [leaf for leaf in leaves(eager, compiled) if not agree(leaf.eager, leaf.compiled)]


def agree(one: Any, other: Any) -> bool:
    """Whether two values differ by no more than their dtype allows for two calls."""
    import torch

    if type(one) is not type(other) or isinstance(one, list | tuple | dict):
        return False
    if isinstance(one, torch.Tensor):
        return not unlike(one, other) and (one.is_meta or torch.equal(one, other) or _near(one, other))
    if isinstance(one, float | complex):
        return bool(one == other) or (one != one and other != other) or abs(one - other) <= FLOAT32.largest * abs(one)
    return not isinstance(one, bool | int | str | bytes) or bool(one == other)


def unlike(one: Any, other: Any) -> bool:
    """Whether two tensors cannot be compared value by value."""
    return bool(one.shape != other.shape or one.dtype != other.dtype)


def _near(one: Any, other: Any) -> bool:
    import torch

    precision = precision_of(one.dtype)
    if precision is None:
        return False
    one, other = one.detach().reshape(-1), other.detach().reshape(-1)
    slices = [slice(begin, begin + _SLICE) for begin in range(0, one.numel(), _SLICE)]
    most, most_by = 0.0, 0.0
    for each in slices:
        left, right = wide(one[each]), wide(other[each])
        finite = left.isfinite()
        if not torch.equal(left[~finite].nan_to_num(0.5), right[~finite].nan_to_num(0.5)):
            return False
        by = (left - right)[finite].abs()
        if not bool(by.isfinite().all()):
            return False
        most = max(most, float(left[finite].abs().max()) if by.numel() else 0.0)
        most_by = max(most_by, float(by.max()) if by.numel() else 0.0)
    if most_by > precision.largest * most:
        return False
    squares, squares_by = 0.0, 0.0  # of fractions of the largest: squares of huge values overflow
    for each in slices if most_by else ():
        left, right = wide(one[each]), wide(other[each])
        finite = left.isfinite()
        squares += float((left[finite] / most).square().sum())
        squares_by += float(((left - right)[finite] / most_by).square().sum())
    return most_by * math.sqrt(squares_by) <= precision.rms * most * math.sqrt(squares)


def wide(tensor: Any) -> Any:
    """Return floating or complex values as float64, complex ones as pairs."""
    import torch

    plain = tensor.detach()
    return (torch.view_as_real(plain.resolve_conj()) if plain.is_complex() else plain).to(torch.float64)


def rms(values: Any) -> float:
    """Return the root mean square of float64 values, which may be huge."""
    most = float(values.abs().max()) if values.numel() else 0.0
    if not most or not math.isfinite(most):
        return most
    return most * math.sqrt(float((values / most).square().mean()))


def within_tolerances(leaf: Leaf, coarsest: Precision, *, built: bool, scale: float = 0.0) -> bool:
    """Whether a dtype allows this difference between two calls: the rule when there is no reference."""
    import torch

    one, other = leaf.eager, leaf.compiled
    if type(one) is not type(other) or not isinstance(one, torch.Tensor | float | complex):
        return False
    one, other = torch.as_tensor(one), torch.as_tensor(other)
    precision = precision_of(one.dtype)
    if precision is None or unlike(one, other):
        return False
    precision = coarser(precision, coarsest)
    tolerance = precision.built if built else precision.emitted
    around = tolerance * max(magnitude(one), scale, _SMALL)
    return bool(torch.isclose(wide(one), wide(other), rtol=tolerance, atol=around, equal_nan=True).all())


def described_difference(leaf: Leaf) -> str:
    """Describe briefly how a place differs."""
    import torch

    one, other, what = leaf.eager, leaf.compiled, leaf.name
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        if unlike(one, other):
            return f"{what} is {_described(one)} in eager, {_described(other)} compiled"
        return f"{what} differs in {_differing(one, other)} of {one.numel()} values{_by(one, other)}"
    if type(one) is not type(other):
        return f"{what} is a {type(one).__name__} in eager, a {type(other).__name__} compiled"
    if isinstance(one, dict):
        return f"{what} has different keys in eager and compiled"
    if isinstance(one, list | tuple):
        return f"{what} has {len(one)} items in eager, {len(other)} compiled"
    return f"{what} is {one!r:.40} in eager, {other!r:.40} compiled"


def _differing(one: Any, other: Any) -> int:
    """Count the values that differ by more than rounding explains."""
    import torch

    precision = precision_of(one.dtype)
    if precision is None:
        return int((one != other).sum())
    apart = 2 * precision.roundoff
    differing = ~torch.isclose(one, other, rtol=apart, atol=apart * magnitude(one), equal_nan=True)
    return int(differing.sum()) or int((one != other).sum())


def difference(eager: Results, compiled: Results) -> str | None:
    """Describe briefly how results differ; return None if they agree."""
    return next((described_difference(leaf) for leaf in disagreeing(eager, compiled)), None)


def _by(one: Any, other: Any) -> str:
    return f", by up to {magnitude(one - other):.3g}" if one.is_floating_point() or one.is_complex() else ""


def magnitude(tensor: Any) -> float:
    """Return the largest finite magnitude."""
    values = tensor.detach().abs()
    finite = values[values.isfinite()]
    return float(finite.max()) if finite.numel() else 0.0


def _described(tensor: Any) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"

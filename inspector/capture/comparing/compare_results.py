"""Compare the results of an eager call directly with those of the same call compiled, value by value."""

import math
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from ctrace.inspector.capture.calls.calling import CallResults
from ctrace.inspector.capture.comparing.precision import FLOAT32, Precision, coarser, precision_of
from ctrace.inspector.capture.comparing.snapshots import ContainerParts, Unread, kind_of, part_of, taken
from ctrace.inspector.capture.comparing.world import bits

_SLICE = 1 << 20
"""How many values to compare at once, since float64 copies of all of them may need more memory than the model."""
_SMALL = 1e-3
"""Without a reference, treat smaller values as if they were this large."""
_GROUPS = {"outputs": "the result", "inputs": "inputs", "buffers": "buffers", "gradients": "gradients"}
"""Fields of `CallResults` in the order of comparison, each with its name in sentences."""

Path = tuple[Any, ...]


class Leaf(Struct, frozen=True):
    """One place in both results: a value, or two containers that differ in kind or size."""

    name: str
    path: Path
    eager: Any
    compiled: Any

    @property
    def group(self) -> str:
        """The field of `CallResults` that the place belongs to."""
        return str(self.path[0])


def leaves(eager: CallResults, compiled: CallResults) -> Iterator[Leaf]:
    """List the values of both results, place by place."""
    eager, compiled = taken(eager, copies=False), taken(compiled, copies=False)
    for group, name in _GROUPS.items():
        yield from _walk(Leaf(name, (group,), _parts(getattr(eager, group)), _parts(getattr(compiled, group))))


def _parts(value: Any) -> Any:
    """Treat the lists and dicts of `CallResults` itself like those of a result."""
    if isinstance(value, list):
        return ContainerParts("list", dict(enumerate(value)), is_sequence=True)
    if isinstance(value, dict):
        return ContainerParts("dict", value)
    return value


def _walk(leaf: Leaf) -> Iterator[Leaf]:
    one, other = leaf.eager, leaf.compiled
    # A value beside a container differs as a whole.
    if not isinstance(one, ContainerParts) or not isinstance(other, ContainerParts):
        yield Leaf(leaf.name, leaf.path, dense(one), dense(other))
        return
    if one.kind != other.kind:
        yield leaf
        return
    if one.items.keys() != other.items.keys():
        yield leaf
    for key, item in one.items.items():
        if key in other.items:
            # The values of a tensor's subclass have no name in it.
            if key != "":
                named = f"{leaf.name}[{key!r:.40}]"
            else:
                named = leaf.name
            yield from _walk(Leaf(named, (*leaf.path, key), item, other.items[key]))


def dense(value: Any) -> Any:
    """Return a sparse, nested or quantized tensor as a plain one; any other value unchanged."""
    import torch

    if not isinstance(value, torch.Tensor) or value.is_meta:
        return value
    if value.is_nested:
        return value.values()
    if value.is_quantized:
        return value.dequantize()
    if value.layout is torch.strided:
        return value
    return value.to_dense()


class _Absent:
    """Marks a place that results do not have."""


ABSENT = _Absent()


def value_at(results: CallResults, path: Path) -> Any:
    """Return the value at one place of results, or ABSENT if there is no such place."""
    group, *keys = path
    value: Any = getattr(results, group)
    # Outputs are what the model returned. The other groups are lists and dicts of `CallResults` itself, often of all
    # parameters: only the one item is taken apart.
    is_list_of_ours = group != "outputs"
    if is_list_of_ours and keys:
        first, *keys = keys
        try:
            value = value[first]
        except LookupError:
            return ABSENT
    value = part_of(value)
    for key in keys:
        if not isinstance(value, ContainerParts) or key not in value.items:
            return ABSENT
        value = value.items[key]
    return dense(value)


def disagreeing(eager: CallResults, compiled: CallResults) -> list[Leaf]:
    """List the places where results differ by more than their dtype allows for two calls."""
    return [leaf for leaf in leaves(eager, compiled) if not agree(leaf.eager, leaf.compiled)]


def is_compared(results: CallResults) -> bool:
    """Whether anything of the result can be compared: not if the model returns only a generator, for example."""
    outputs = CallResults(results.outputs, [], [])
    return not all(isinstance(leaf.eager, Unread) for leaf in leaves(outputs, outputs))


def agree(one: Any, other: Any) -> bool:
    """Whether two values differ by no more than their dtype allows for two calls."""
    import torch

    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return not unlike(one, other) and (one.is_meta or _equal(one, other) or _near(one, other))
    if isinstance(one, bool | int | float | complex) and isinstance(other, bool | int | float | complex):
        return _same_number(one, other)
    if type(one) is not type(other) or isinstance(one, ContainerParts):
        return False
    return bool(one == other)


def _equal(one: Any, other: Any) -> bool:
    """Whether two tensors of the same shape and dtype are equal; some dtypes can only be compared bit by bit."""
    import torch

    try:
        return torch.equal(one, other)
    except (RuntimeError, NotImplementedError):  # float8 and unsigned integers, on some devices (2.13)
        return torch.equal(bits(one), bits(other))


def _unequal(one: Any, other: Any) -> Any:
    try:
        return one != other
    except (RuntimeError, NotImplementedError):
        return (bits(one) != bits(other)).reshape(one.numel(), -1).any(-1)


def _same_number(one: complex, other: complex) -> bool:
    """Compare numbers by value: 2, 2.0 and True, 1 are the same to Python, too."""
    if one == other or (one != one and other != other):
        return True
    if isinstance(one, int) and isinstance(other, int):
        return False
    apart = abs(one - other)
    return math.isfinite(apart) and apart <= FLOAT32.largest * abs(one)


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
        # NaN equals nothing, not even itself, so it becomes a number; an infinity becomes the largest one.
        if not torch.equal(left[~finite].nan_to_num(0.5), right[~finite].nan_to_num(0.5)):
            return False
        by = (left - right)[finite].abs()
        if not bool(by.isfinite().all()):
            return False
        most = max(most, float(left[finite].abs().max()) if by.numel() else 0.0)
        most_by = max(most_by, float(by.max()) if by.numel() else 0.0)
    # The largest difference is cheap and decides most cases; the mean square needs a second pass.
    if most_by > precision.largest * most:
        return False
    squares, squares_by = 0.0, 0.0  # of fractions of the largest: squares of huge values overflow
    if most_by:
        for each in slices:
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
    most = 0.0
    if values.numel():
        most = float(values.abs().max())
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
    if built:
        tolerance = precision.built
    else:
        tolerance = precision.emitted
    # Relative to the largest value: after cancellation, a small value has the error of the large ones.
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
    if kind_of(one) != kind_of(other):
        return f"{what} is a {kind_of(one)} in eager, a {kind_of(other)} compiled"
    if isinstance(one, ContainerParts) and isinstance(other, ContainerParts):
        if one.is_sequence:
            return f"{what} has {len(one.items)} items in eager, {len(other.items)} compiled"
        return f"{what} has different keys in eager and compiled"
    return f"{what} is {one!r:.40} in eager, {other!r:.40} compiled"


def _differing(one: Any, other: Any) -> int:
    """Count the values that differ by more than rounding explains."""
    import torch

    precision = precision_of(one.dtype)
    if precision is None:
        return int(_unequal(one, other).sum())
    # Each of the two results may be rounded once.
    apart = 2 * precision.roundoff
    differing = ~torch.isclose(one, other, rtol=apart, atol=apart * magnitude(one), equal_nan=True)
    # If all of it is rounding, each value that is not the same counts: the results do differ.
    return int(differing.sum()) or int(_unequal(one, other).sum())


def difference(eager: CallResults, compiled: CallResults) -> str | None:
    """Describe briefly how results differ; return None if they agree."""
    return next((described_difference(leaf) for leaf in disagreeing(eager, compiled)), None)


def _by(one: Any, other: Any) -> str:
    if precision_of(one.dtype) is not None:
        return f", by up to {magnitude(one - other):.3g}"
    return ""


def magnitude(tensor: Any) -> float:
    """Return the largest finite magnitude."""
    values = tensor.detach().abs()
    finite = values[values.isfinite()]
    if finite.numel():
        return float(finite.max())
    return 0.0


def _described(tensor: Any) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"

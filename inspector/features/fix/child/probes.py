"""Inputs derived from a scenario's, to reach more: other branches, odd values, other dtypes and sizes."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from ctrace.inspector.capture.calls.call_tensors import recast, restrided
from ctrace.inspector.capture.calls.ways import Call
from ctrace.inspector.errors import TargetError
from ctrace.inspector.features.fix.child.call_values import mapped, resized, tensors, with_leaves

Change = Callable[[Call], Call]

_LARGEST_SIZE = 600
"""Of a dimension that a probe makes."""


def _same(call: Call) -> Call:
    return call


def probes(spelled: Change = _same) -> dict[str, Change]:  # noqa: PLR0915 - one statement for each probe
    """Return all probes by name, first those that most often reach another branch.

    `spelled` passes the numbers and flags of a call that are left at their defaults.
    """
    import torch

    inf, nan = float("inf"), float("nan")
    found: dict[str, Change] = {}

    def floats(name: str, change: Callable[[Any], Any]) -> None:
        found[name] = lambda call: _values(call, change, lambda leaf: leaf.is_floating_point() or leaf.is_complex())

    def integers(name: str, change: Callable[[Any], Any]) -> None:
        found[name] = lambda call: _values(call, change, _is_integer)

    def flags(name: str, change: Callable[[Any], Any]) -> None:
        found[name] = lambda call: _values(call, change, lambda leaf: leaf.dtype is torch.bool)

    floats("negated", lambda leaf: -leaf)
    floats("zeros", torch.zeros_like)
    floats("large", lambda leaf: leaf * 1e4)
    floats("NaN", lambda leaf: torch.full_like(leaf, nan))
    floats("positive", lambda leaf: leaf.abs() + 0.5)
    floats("negative", lambda leaf: -leaf.abs() - 0.5)
    floats("small", lambda leaf: leaf * 1e-4)
    floats("ones", torch.ones_like)
    integers("integers 0", torch.zeros_like)
    integers("integers reversed", lambda leaf: leaf.flatten().flip(0).reshape(leaf.shape))
    integers("integers largest", lambda leaf: torch.full_like(leaf, int(leaf.max()) if leaf.numel() else 0))
    integers("integers 1", torch.ones_like)
    integers("integers negated", lambda leaf: -leaf)
    integers("integers plus 5", lambda leaf: leaf + 5)
    flags("all false", torch.zeros_like)
    flags("all true", torch.ones_like)
    flags("inverted", torch.logical_not)
    # Of one chosen element, torch broadcasts what it refuses of two.
    flags("first true", lambda leaf: _only(leaf, 0))
    flags("last true", lambda leaf: _only(leaf, -1))
    found["numbers negated"] = lambda call: _numbers(spelled(call), lambda number: -number)
    found["numbers 0"] = lambda call: _numbers(spelled(call), lambda number: type(number)(0))
    found["numbers larger"] = lambda call: _numbers(spelled(call), lambda number: number * 10 + 1)
    found["numbers NaN"] = lambda call: _numbers(
        spelled(call), lambda number: nan if isinstance(number, float) else number
    )
    found["flags inverted"] = lambda call: _inverted(spelled(call))
    floats("shifted up", lambda leaf: leaf + 100.0)
    floats("shifted down", lambda leaf: leaf - 100.0)
    floats("infinity", lambda leaf: torch.full_like(leaf, inf))
    floats("one NaN", lambda leaf: _first(leaf, nan))
    floats("one infinity", lambda leaf: _first(leaf, -inf))
    floats("one value", lambda leaf: _first(torch.zeros_like(leaf), 3.0))
    floats("first row 0", _first_row_zero)
    found["float64"] = lambda call: _changed(call, lambda leaf: recast(leaf, "float64"))
    found["float16"] = lambda call: _changed(call, lambda leaf: recast(leaf, "float16"))
    found["bfloat16"] = lambda call: _changed(call, lambda leaf: recast(leaf, "bfloat16"))
    found["integer inputs"] = _as_integers
    found["fractional inputs"] = _as_fractions
    found["empty batch"] = lambda call: resized(call, 0, 0)
    found["empty rows"] = lambda call: resized(call, 1, 0)
    found["batch 1"] = lambda call: resized(call, 0, 1)
    found["noncontiguous"] = lambda call: _changed(call, lambda leaf: restrided(leaf, "noncontiguous"))
    found["expanded"] = lambda call: _changed(call, _expanded)
    found["overlapping"] = lambda call: _changed(call, _overlapping)
    found["another dictionary"] = _another_dictionary
    found["dictionary subclass"] = _dictionary_subclass
    found["requires_grad"] = _requiring
    found["computed inputs"] = _computed
    found["one tensor twice"] = _aliased
    found["views of one tensor"] = _views
    found["subclass"] = _subclassed
    floats("random 1", lambda leaf: _random(leaf, 1.0))
    floats("random 2", lambda leaf: _random(leaf, 10.0))
    floats("random 3", lambda leaf: _random(leaf, 0.1))
    found.update(_pairs(found))
    return found


def _pairs(single: dict[str, Change]) -> dict[str, Change]:
    """Return probes that also change numbers beside tensors: one side of a branch may fail for one number only."""
    beside = ("numbers 0", "numbers negated", "flags inverted", "integers negated", "integers plus 5")

    def both(one: Change, other: Change) -> Change:
        return lambda call: other(one(call))

    signs = ("positive", "negative", "integers negated")
    return {
        f"{sign} with {name}": both(single[sign], single[name]) for sign in signs for name in beside if name != sign
    }


def searches(spelled: Change = _same) -> dict[str, Change]:
    """Return more probes, for conditions with a side that no call has reached."""
    import torch

    found: dict[str, Change] = {}

    def add(name: str, change: Callable[[Any], Any]) -> None:
        found[name] = lambda call: _values(call, change, lambda leaf: leaf.is_floating_point())

    for scale in (0.01, 0.1, 3.0, 10.0, 100.0, 1e6):
        add(f"times {scale:g}", lambda leaf, by=scale: leaf * by)  # type: ignore[misc]
        add(f"times {-scale:g}", lambda leaf, by=scale: leaf * -by)  # type: ignore[misc]
    for shift in (0.1, 1.0, 5.0, 30.0, 1000.0):
        add(f"plus {shift:g}", lambda leaf, by=shift: leaf + by)  # type: ignore[misc]
        add(f"minus {shift:g}", lambda leaf, by=shift: leaf - by)  # type: ignore[misc]
    add("alternating", lambda leaf: _alternating(leaf, 1.0))
    add("alternating and large", lambda leaf: _alternating(leaf, 100.0))
    add("sorted", lambda leaf: leaf.flatten().sort().values.reshape(leaf.shape))
    add("uniform", lambda leaf: torch.rand_like(leaf) if leaf.is_floating_point() else leaf)
    for number in (2, 3, 5, 7, 100):
        found[f"integers {number}"] = lambda call, to=number: _values(  # type: ignore[misc]
            call, lambda leaf: torch.full_like(leaf, to), _is_integer
        )
        found[f"numbers {number}"] = lambda call, to=number: _numbers(spelled(call), lambda one: type(one)(to))  # type: ignore[misc]
    return found


def mined(constants: Iterable[float], spelled: Change = _same) -> dict[str, Change]:
    """Return probes with the numbers that the code compares with, as sizes, as values and as arguments.

    A program that treats sizes above 64 in another way shows it for 65, not for 4.
    """
    import torch

    found: dict[str, Change] = {}
    for constant in constants:
        if isinstance(constant, int) and 1 < constant <= _LARGEST_SIZE:
            for size in (constant - 1, constant, constant + 1):
                found[f"batch {size}"] = lambda call, to=size: resized(call, 0, to)  # type: ignore[misc]
                found[f"rows {size}"] = lambda call, to=size: resized(call, 1, to)  # type: ignore[misc]
        for value in (constant, constant + 0.25, constant - 0.25):
            found[f"all {value:g}"] = lambda call, to=value: _values(  # type: ignore[misc]
                call, lambda leaf: torch.full_like(leaf, to), lambda leaf: leaf.is_floating_point()
            )
        if isinstance(constant, int) and abs(constant) <= _LARGEST_SIZE:
            for number in (constant, constant + 1, constant - 1):
                found[f"integers {number}"] = lambda call, to=number: _values(  # type: ignore[misc]
                    call, lambda leaf: torch.full_like(leaf, to), _is_integer
                )
                found[f"numbers {number}"] = lambda call, to=number: _numbers(spelled(call), lambda one: type(one)(to))  # type: ignore[misc]
    return found


def further(constants: Iterable[float], spelled: Change = _same) -> dict[str, Change]:
    """Return fewer probes for each of more numbers: those of slices, defaults and names, and beyond the first few."""
    import torch

    found: dict[str, Change] = {}
    for constant in constants:
        if isinstance(constant, float):
            found[f"all {constant:g}"] = lambda call, to=constant: _values(  # type: ignore[misc]
                call, lambda leaf: torch.full_like(leaf, to), lambda leaf: leaf.is_floating_point()
            )
        elif 1 < constant <= _LARGEST_SIZE:
            for size in (constant, constant + 1):
                found[f"batch {size}"] = lambda call, to=size: resized(call, 0, to)
                found[f"rows {size}"] = lambda call, to=size: resized(call, 1, to)
            found[f"integers {constant}"] = lambda call, to=constant: _values(
                call, lambda leaf: torch.full_like(leaf, to), _is_integer
            )
            found[f"numbers {constant}"] = lambda call, to=constant: _numbers(spelled(call), lambda one: type(one)(to))
    return found


def _is_integer(leaf: Any) -> bool:
    import torch

    return not (leaf.is_floating_point() or leaf.is_complex() or leaf.dtype is torch.bool or leaf.is_quantized)


def _values(call: Call, change: Callable[[Any], Any], which: Callable[[Any], bool]) -> Call:
    """Change the values of some tensors, in their own strides.

    Raises:
        TargetError: nothing changes.
    """
    import torch

    def changed(leaf: Any) -> Any:
        if not which(leaf) or leaf.layout is not torch.strided or leaf.is_nested:
            return leaf
        with torch.no_grad():
            new = change(leaf.detach()).to(leaf.dtype)
            # In the strides of the input: a change of the values must not be one of the layout, too.
            made = torch.empty_like(leaf.detach())
            made.copy_(new)
        return made.requires_grad_(leaf.requires_grad)

    if not any(which(leaf) for leaf in tensors(call)):
        raise TargetError("no such input", "")
    return mapped(call, changed)


def _changed(call: Call, change: Callable[[Any], Any]) -> Call:
    changed = mapped(call, change)
    if all(old is new for old, new in zip(tensors(call), tensors(changed), strict=True)):
        raise TargetError("no input changes", "")
    return changed


def _only(leaf: Any, at: int) -> Any:
    """Return a mask that is true at one place."""
    import torch

    made = torch.zeros(leaf.shape, dtype=torch.bool, device=leaf.device)
    if made.numel():
        made.view(-1)[at] = True
    return made


def _first(leaf: Any, value: float) -> Any:
    made = leaf.clone()
    if made.numel():
        made.flatten()[0] = value
        made.view(-1)[0] = value
    return made


def _first_row_zero(leaf: Any) -> Any:
    made = leaf.clone()
    if made.dim() and made.shape[0]:
        made[0] = 0
    return made


def _alternating(leaf: Any, size: float) -> Any:
    import torch

    signs = 1.0 - 2.0 * (torch.arange(leaf.numel(), device=leaf.device) % 2)
    return (signs * size).reshape(leaf.shape)


def _random(leaf: Any, scale: float) -> Any:
    import torch

    return torch.randn(leaf.shape, device=leaf.device, dtype=torch.float32) * scale


def _numbers(call: Call, change: Callable[[Any], Any]) -> Call:
    return with_leaves(call, lambda leaf: isinstance(leaf, int | float) and not isinstance(leaf, bool), change)


def _inverted(call: Call) -> Call:
    return with_leaves(call, lambda leaf: isinstance(leaf, bool), lambda flag: not flag)


def _computed(call: Call) -> Call:
    """Pass tensors that another module has computed: no leaves, with a gradient to give on."""

    def change(leaf: Any) -> Any:
        if leaf.is_floating_point():
            return leaf.detach().clone().requires_grad_().mul(1.0)
        return leaf

    return _changed(call, change)


def _requiring(call: Call) -> Call:
    def changed(leaf: Any) -> Any:
        if not leaf.is_floating_point() or leaf.requires_grad:
            return leaf
        return leaf.detach().clone().requires_grad_(True)

    return _changed(call, changed)


def _aliased(call: Call) -> Call:
    """Pass one tensor for all tensors of the same form."""
    first: dict[Any, Any] = {}

    def changed(leaf: Any) -> Any:
        return first.setdefault((leaf.shape, leaf.dtype, leaf.requires_grad), leaf)

    return _changed(call, changed)


def _views(call: Call) -> Call:
    """Pass views into larger tensors, so that in-place writes outside the view are visible."""
    import torch

    def changed(leaf: Any) -> Any:
        if leaf.layout is not torch.strided or leaf.is_nested or not leaf.dim() or leaf.requires_grad:
            return leaf
        with torch.no_grad():
            return torch.cat([leaf, leaf])[: leaf.shape[0]]

    return _changed(call, changed)


def _as_integers(call: Call) -> Call:
    """Pass integers where floats were: an op may then truncate, or refuse them."""

    def changed(leaf: Any) -> Any:
        if leaf.is_floating_point():
            return (leaf.detach() * 3).round().long()
        return leaf

    return _changed(call, changed)


def _as_fractions(call: Call) -> Call:
    """Pass floats that are not whole where floats without a fraction or integers were."""

    def changed(leaf: Any) -> Any:
        if _is_integer(leaf):
            return leaf.float() + 0.6
        if leaf.is_floating_point():
            return (leaf.detach() + 0.6).requires_grad_(leaf.requires_grad)
        return leaf

    return _changed(call, changed)


def _expanded(leaf: Any) -> Any:
    """Let all rows be one row in memory."""
    if not _is_dense(leaf) or not leaf.dim() or leaf.shape[0] < 2:
        return leaf
    return leaf.detach()[:1].clone().expand(leaf.shape)


def _overlapping(leaf: Any) -> Any:
    """Let each row begin one element after the row before it, as in a sliding window."""
    if not _is_dense(leaf) or leaf.dim() < 2 or leaf.shape[0] < 2 or leaf[0].numel() < 2:
        return leaf
    whole = leaf.detach().contiguous().clone()
    return whole.as_strided(whole.shape, (1, *whole.stride()[1:]))


def _is_dense(leaf: Any) -> bool:
    import torch

    return leaf.layout is torch.strided and not leaf.is_nested and not leaf.requires_grad


def _another_dictionary(call: Call) -> Call:
    """Pass a dictionary of another class, with a key more; and one object under two keys."""

    def made(value: dict[Any, Any]) -> Any:
        other: dict[Any, Any] = defaultdict(list)
        other.update(value)
        other["ctrace"] = None
        return other

    return _with_dictionaries(call, made)


class Mapping(dict[Any, Any]):
    """A class of dictionaries that defines nothing: what `copy` returns is not of this class."""


def _dictionary_subclass(call: Call) -> Call:
    return _with_dictionaries(call, Mapping)


def _with_dictionaries(call: Call, made: Callable[[dict[Any, Any]], Any]) -> Call:
    """Pass other dictionaries for plain ones.

    Raises:
        TargetError: there is none.
    """
    changed = False

    def visited(value: Any) -> Any:
        nonlocal changed
        if type(value) is dict:
            changed = True
            return made({key: visited(each) for key, each in value.items()})
        if type(value) in (list, tuple):
            return type(value)(map(visited, value))
        return value

    args, kwargs = visited(call.args), {key: visited(each) for key, each in call.kwargs.items()}
    if not changed:
        raise TargetError("no dictionary", "")
    return Call(args, kwargs)


_subclasses: list[Any] = []


def _subclassed(call: Call) -> Call:
    """Pass tensors of a subclass whose ops return the subclass, as torch's own subclasses do."""
    import torch

    if not _subclasses:
        # One class for all probes: Dynamo guards on it, and would compile for each new one.
        _subclasses.append(type("Subclass", (torch.Tensor,), {}))
    return _changed(call, lambda leaf: leaf.detach().clone().as_subclass(_subclasses[0]))

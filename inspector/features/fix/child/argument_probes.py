"""Arguments of another type, dtype or shape than a scenario's, and those that its calls leave at their defaults."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from ctrace.inspector.capture.calls.ways import Call
from ctrace.inspector.errors import TargetError
from ctrace.inspector.facts.trial import MOST_ALONE, NO_ELEMENTS, WITHOUT_KEY
from ctrace.inspector.features.fix.child.call_values import leaves, mapped, resized, tensors, with_leaves

Change = Callable[[Call], Call]

_DTYPES = ("float16", "bfloat16", "float64")
_MOST_DIMENSIONS = 4
"""Dimensions whose sizes are changed one by one: as many as images in a batch have."""
_MANY = 1203
"""bfloat16 holds no odd number above 256, so a count of so many elements, or of each fourth one, is rounded."""
UNEVEN = 257
"""The least count that bfloat16 rounds: halfway between two of its numbers, where rounding changes most."""
_MOST_COUNTS = 3
"""Arguments that are varied alone; each costs a call."""
_MOST_ELEMENTS = 1 << 20
ROWS = {"": 1.0, " beside small inputs": 1e-4, " beside large inputs": 1e4}
"""Factors of the inputs where numbers become tensors with a dimension more: which side of a branch is taken decides
whether the result has that dimension, too."""
SPARSE = " alone sparse"
"""What the name of a call ends with that passes one matrix in a sparse layout."""
_REFUSALS = ("TypeError", "AttributeError")
"""What a call raises for an argument of a kind that it does not take."""


def spelled_out(subject: Any) -> Change:
    """Return a change that passes the numbers and flags that a call leaves at their defaults."""
    defaults = {
        each.name: each.default for each in _parameters(subject) if isinstance(each.default, bool | int | float)
    }

    def change(call: Call) -> Call:
        taken = _taken(subject, call)
        return Call(call.args, {**call.kwargs, **{name: one for name, one in defaults.items() if name not in taken}})

    if defaults:
        return change
    return _same


def other_dtypes(subject: Any) -> dict[str, Change]:
    """Return probes that pass other dtypes for parameters that are dtypes, also where the default is None."""
    import torch

    names = [each.name for each in _parameters(subject) if _is_dtype(each)]

    def changed(call: Call, dtype: Any) -> Call:
        left = [name for name in names if name not in _taken(subject, call)]
        # A call that passes a dtype already gets another in its place; one that passes none gets it by name.
        if not left or any(isinstance(one, torch.dtype) for one in leaves(call)):
            call = with_leaves(call, lambda leaf: isinstance(leaf, torch.dtype), lambda _: dtype)
        return Call(call.args, {**call.kwargs, **dict.fromkeys(left, dtype)})

    return {f"dtype {name}": lambda call, to=name: changed(call, getattr(torch, to)) for name in _DTYPES}  # type: ignore[misc]


def other_kinds(spelled: Change) -> dict[str, Change]:
    """Return probes that pass something of another kind, which a program may take as well."""
    import torch

    def floats(leaf: Any) -> bool:
        return bool(leaf.is_floating_point())

    def integers(leaf: Any) -> bool:
        return not (leaf.is_floating_point() or leaf.is_complex() or leaf.dtype is torch.bool or leaf.is_quantized)

    def booleans(leaf: Any) -> bool:
        return leaf.dtype is torch.bool

    found: dict[str, Change] = {
        "tensors as numbers": _tensors_as_numbers,
        "numbers as tensors": lambda call: _of_numbers(spelled(call), torch.tensor),
        **{
            f"numbers as rows{beside}": lambda call, by=factor: _scaled(_as_rows(spelled(call)), by)  # type: ignore[misc]
            for beside, factor in ROWS.items()
        },
        "integers as floats": lambda call: _of_numbers(spelled(call), float, int),
        "numbers infinite": lambda call: _of_numbers(spelled(call), lambda _: float("inf")),
    }

    def cast(name: str, which: Callable[[Any], bool], change: Callable[[Any], Any]) -> None:
        found[name] = lambda call: _cast(call, which, change)

    for at in range(MOST_ALONE):
        found |= {
            f"tensor {at + 1} alone as number": lambda call, at=at: _tensors_as_numbers(call, at),  # type: ignore[misc]
            f"number {at + 1} alone as tensor": lambda call, at=at: _of_numbers(spelled(call), torch.tensor, only=at),  # type: ignore[misc]
            f"tensor {at + 1}{SPARSE}": lambda call, at=at: _sparse(call, at),  # type: ignore[misc]
            f"number {at + 1} alone as float": lambda call, at=at: _of_numbers(spelled(call), float, int, only=at),  # type: ignore[misc]
            f"number {at + 1} alone infinite": lambda call, at=at: _of_numbers(  # type: ignore[misc]
                spelled(call), lambda _: float("inf"), only=at
            ),
        }
    found |= _kinds_alone()
    cast("floats as booleans", floats, lambda leaf: leaf > 0)
    cast("floats as uint8", floats, lambda leaf: (leaf.abs() * 3).to(torch.uint8))
    cast("floats as complex", floats, _complex)
    cast("integers as booleans", integers, lambda leaf: leaf != 0)
    for dtype in (torch.uint8, torch.int32):
        cast(f"integers as {_name(dtype)}", integers, lambda leaf, to=dtype: leaf.to(to))  # type: ignore[misc]
    for dtype in (torch.uint8, torch.int64):
        name = f"booleans as {_name(dtype)}"
        cast(name, booleans, lambda leaf, to=dtype: leaf.to(to))  # type: ignore[misc]
        # An op that refuses such a mask may run only where one element is true, or none.
        cast(f"{name} all true", booleans, lambda leaf, to=dtype: torch.ones_like(leaf, dtype=to))  # type: ignore[misc]
        cast(f"{name} all false", booleans, lambda leaf, to=dtype: torch.zeros_like(leaf, dtype=to))  # type: ignore[misc]
    return found


def _kinds_alone() -> dict[str, Change]:
    """Return probes that pass one tensor of floats beside others in another dtype, all NaN, or None in its place.

    Statistics of a data set are in float64, weights of samples are counts, a missing modality is NaN or None. Where all
    inputs change alike, both sides of a branch have one dtype again.
    """
    import torch

    changes: dict[str, Callable[[Any], Any]] = {
        "in float64": _in_float64,
        "as integers": lambda leaf: (leaf * 3).round().to(torch.int64),
        "as booleans": lambda leaf: leaf > 0,
        "NaN": lambda leaf: torch.full_like(leaf, float("nan")),
        "None": lambda _: None,
    }
    return {
        f"tensor {at + 1} alone {kind}": lambda call, at=at, to=change: _one_of_floats(call, at, to)  # type: ignore[misc]
        for at in range(MOST_ALONE)
        for kind, change in changes.items()
    }


def others_alone(spelled: Change) -> dict[str, Change]:
    """Return probes that change one number or flag of several: with all of them changed, a call may only raise."""
    found: dict[str, Change] = {}
    for at in range(MOST_ALONE):
        found |= {
            f"number {at + 1} alone 0": lambda call, at=at: _of_numbers(  # type: ignore[misc]
                spelled(call), lambda number: type(number)(0), only=at
            ),
            f"number {at + 1} alone larger": lambda call, at=at: _of_numbers(  # type: ignore[misc]
                spelled(call), lambda number: number * 10 + 1, only=at
            ),
            f"flag {at + 1} alone inverted": lambda call, at=at: with_leaves(  # type: ignore[misc]
                spelled(call), lambda value: isinstance(value, bool), lambda flag: not flag, at
            ),
        }
    return found


def emptied() -> dict[str, Change]:
    """Return probes that empty one tensor of several, or all lists, tuples and dictionaries, or leave out one key.

    Callers pass `torch.empty(0)` for what a call does not use. A sum over an empty list is still the number that it
    began with.
    """
    found: dict[str, Change] = {
        f"tensor {at + 1} alone empty": lambda call, at=at: _emptied(call, at)  # type: ignore[misc]
        for at in range(MOST_ALONE)
    }
    found |= {f"{WITHOUT_KEY}{at + 1}": lambda call, at=at: _without_key(call, at) for at in range(MOST_ALONE)}  # type: ignore[misc]
    return {**found, NO_ELEMENTS: _without_elements}


def other_shapes() -> dict[str, Change]:
    """Return probes with another number of dimensions, and with other sizes than those of a batch."""
    found: dict[str, Change] = {
        "one dimension less": lambda call: _reshaped(call, lambda leaf: leaf[0]),
        "no dimensions": lambda call: _without_dimensions(call),
        "one dimension more": lambda call: _reshaped(call, lambda leaf: leaf.unsqueeze(0)),
    }
    for dimension in range(_MOST_DIMENSIONS):
        found[f"dimension {dimension} larger"] = lambda call, at=dimension: _grown(call, at)  # type: ignore[misc]
        if dimension:
            found[f"dimension {dimension} of size 1"] = lambda call, at=dimension: _single(call, at)  # type: ignore[misc]
    found["all of size 1"] = _all_single
    return found


def broadcast() -> dict[str, Change]:
    """Return probes that give one tensor of several a shape that torch broadcasts beside the others.

    A condition for the whole batch is passed as one row, a mask as one column, a scale of each channel as one of each
    row: a side of a branch that only returns such a tensor has its shape, and torch.where the shape of both sides.
    """
    found: dict[str, Change] = {}
    for at in range(MOST_ALONE):
        found |= {
            f"tensor {at + 1} alone of one row": lambda call, at=at: _with_one(call, at, 0),  # type: ignore[misc]
            f"tensor {at + 1} alone of one column": lambda call, at=at: _with_one(call, at, -1),  # type: ignore[misc]
            f"tensor {at + 1} alone for each row": lambda call, at=at: _for_each_row(call, at),  # type: ignore[misc]
        }
    return found


def many() -> dict[str, Change]:
    """Return probes with counts that bfloat16 cannot hold: so many elements in a dimension, or integers of that size.

    Lengths and steps are passed as integers, and each tensor of them alone too: an embedding has no row for such an id.
    """
    found: dict[str, Change] = {
        f"dimension {at} of {_MANY}": lambda call, at=at: _of_many(call, at)  # type: ignore[misc]
        for at in range(_MOST_DIMENSIONS)
    }
    found[f"integers of {UNEVEN}"] = lambda call: _of_count(call)
    for at in range(_MOST_COUNTS):
        found[f"integers {at + 1} alone of {UNEVEN}"] = lambda call, at=at: _of_count(call, at)  # type: ignore[misc]
    return found


def _of_count(call: Call, only: int | None = None) -> Call:
    """Return arguments whose tensors of integers, or one of them, have a count that bfloat16 cannot hold."""
    import torch

    wide = (torch.int64, torch.int32, torch.int16)
    found = [each for each in tensors(call) if each.dtype in wide and each.numel()]
    # Of a single tensor, the probe of all of them is the same call.
    if not found or (only is not None and (len(found) == 1 or only >= len(found))):
        raise TargetError("no such integers", "")
    chosen = {id(each) for each in (found if only is None else found[only : only + 1])}
    return mapped(call, lambda leaf: torch.full_like(leaf, UNEVEN) if id(leaf) in chosen else leaf)


def _of_many(call: Call, dimension: int) -> Call:
    size = _size(call, dimension)
    if max(each.numel() for each in tensors(call)) * _MANY > _MOST_ELEMENTS * size:
        raise TargetError("it is too large", "")
    return resized(call, dimension, _MANY)


def refusal(raised: str) -> str:
    """Return what an exception for an argument of a wrong kind says: its text names what the call asks of it first."""
    kind = raised.partition(":")[0]
    if kind in _REFUSALS:
        return kind
    return raised


# The parameters of a subject


def _same(call: Call) -> Call:
    return call


def _signature(subject: Any) -> inspect.Signature | None:
    import torch

    try:
        # The call of a module takes anything, and hands it to `forward`, which has the parameters.
        return inspect.signature(subject.forward if isinstance(subject, torch.nn.Module) else subject)
    except (TypeError, ValueError):
        return None


def _parameters(subject: Any) -> Iterator[inspect.Parameter]:
    """Yield the parameters with a default that a call may pass by name."""
    signature = _signature(subject)
    if signature is None:
        return
    for each in signature.parameters.values():
        if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY) and each.default is not each.empty:
            yield each


def _taken(subject: Any, call: Call) -> set[str]:
    """Return the parameters that a call passes; all of them where the signature is not that of the call."""
    signature = _signature(subject)
    if signature is None:
        return set()
    try:
        # It tells which parameters the positional arguments are for.
        return set(signature.bind(*call.args, **call.kwargs).arguments)
    except TypeError:
        return set(signature.parameters)


def _is_dtype(parameter: inspect.Parameter) -> bool:
    import torch

    named = parameter.name == "dtype" or parameter.name.endswith("_dtype")
    return isinstance(parameter.default, torch.dtype) or (named and parameter.default is None)


# Types and dtypes


def _tensors_as_numbers(call: Call, only: int | None = None) -> Call:
    import torch

    def is_single(value: Any) -> bool:
        return isinstance(value, torch.Tensor) and bool(value.numel() == 1 and value.dim() <= 1)

    return with_leaves(call, is_single, lambda leaf: leaf.item(), only)


def _of_numbers(
    call: Call, change: Callable[[Any], Any], kinds: Any = (int, float), *, only: int | None = None
) -> Call:
    def is_number(value: Any) -> bool:
        return isinstance(value, kinds) and not isinstance(value, bool)

    return with_leaves(call, is_number, change, only)


def _as_rows(call: Call) -> Call:
    """Pass a tensor for each number, with a dimension more than the inputs have: the result gets it where it is used.

    A guidance scale is often given as a list of values, one for each row of a grid.
    """
    import torch

    dimensions = max((leaf.dim() for leaf in tensors(call)), default=0)
    return _of_numbers(call, lambda number: torch.tensor([number, number]).reshape(2, *[1] * dimensions))


def _scaled(call: Call, by: float) -> Call:
    return mapped(call, lambda leaf: leaf.detach() * by if leaf.is_floating_point() and leaf.dim() else leaf)


def _sparse(call: Call, at: int) -> Call:
    """Pass one of the matrices in a sparse layout, as an adjacency may be given."""
    import torch

    every = [leaf for leaf in tensors(call) if leaf.dim() == 2 and leaf.is_floating_point()]
    # A tensor that is not strided has such a layout already.
    if at >= len(every) or every[at].layout is not torch.strided:
        raise TargetError("no such matrix", "")
    return mapped(call, lambda leaf: leaf.detach().to_sparse() if leaf is every[at] else leaf)


def _in_float64(leaf: Any) -> Any:
    import torch

    if leaf.dtype is torch.float64:
        raise TargetError("it is already", "")
    return leaf.to(torch.float64)


def _one_of_floats(call: Call, at: int, change: Callable[[Any], Any]) -> Call:
    every = tensors(call)
    # Alone, it has no others to differ from, so nothing would be mixed.
    if len(every) < 2 or at >= len(every) or not every[at].is_floating_point():
        raise TargetError("no such tensor", "")
    made = change(every[at].detach())
    if made is not None and made.is_floating_point():
        # A cast makes a tensor without a history: the probe must not change what has gradients, too.
        made.requires_grad_(every[at].requires_grad)
    return mapped(call, lambda leaf: made if leaf is every[at] else leaf)


def _emptied(call: Call, at: int) -> Call:
    every = [leaf for leaf in tensors(call) if leaf.dim() and leaf.numel()]
    if len(every) < 2 or at >= len(every):
        raise TargetError("no such tensor", "")
    return mapped(call, lambda leaf: leaf.new_empty(0) if leaf is every[at] else leaf)


def _with_one(call: Call, at: int, dimension: int) -> Call:
    """Pass one of several tensors with its first element alone in a dimension.

    Raises:
        TargetError: it has no other, or none with rows and columns.
    """
    every = tensors(call)
    if len(every) < 2 or at >= len(every):
        raise TargetError("no such tensor", "")
    chosen = every[at]
    if chosen.dim() < (1 if dimension == 0 else 2) or chosen.shape[dimension] < 2:
        raise TargetError("it has one element there", "")
    return _with_other(call, chosen, lambda leaf: leaf.narrow(dimension, 0, 1))


def _for_each_row(call: Call, at: int) -> Call:
    """Pass one of several tensors, which has fewer dimensions than the first one, once for each row of the first."""
    every = tensors(call)
    if at >= len(every) or not 0 < every[at].dim() < every[0].dim():
        raise TargetError("no such tensor", "")
    rows = every[0].shape[0]
    return _with_other(call, every[at], lambda leaf: leaf.expand(rows, *leaf.shape))


def _with_other(call: Call, chosen: Any, change: Callable[[Any], Any]) -> Call:
    import torch

    if chosen.layout is not torch.strided or chosen.is_nested:
        raise TargetError("it has no strides", "")
    # A tensor of its own, as a program would pass it; a view would also be a probe of shared memory.
    made = change(chosen.detach()).clone().requires_grad_(chosen.requires_grad)
    return mapped(call, lambda leaf: made if leaf is chosen else leaf)


def _without_elements(call: Call) -> Call:
    """Pass an empty list, tuple or dictionary for each."""

    def changed(value: Any) -> Any:
        # By the exact type, because a subclass may not be made without arguments.
        if type(value) in (list, tuple, dict):
            return type(value)()
        return value

    if not any(type(each) in (list, tuple, dict) and each for each in (*call.args, *call.kwargs.values())):
        raise TargetError("no such argument", "")
    return Call(tuple(changed(each) for each in call.args), {name: changed(each) for name, each in call.kwargs.items()})


def _without_key(call: Call, at: int) -> Call:
    """Leave one key out of the dictionaries among the arguments, as a loader does that has no such data."""
    every = (*call.args, *call.kwargs.values())
    keys = list(dict.fromkeys(key for each in every if type(each) is dict for key in each))
    if at >= len(keys):
        raise TargetError("no such key", "")

    def changed(value: Any) -> Any:
        if type(value) is dict:
            return {key: each for key, each in value.items() if key != keys[at]}
        return value

    return Call(tuple(map(changed, call.args)), {name: changed(each) for name, each in call.kwargs.items()})


def _cast(call: Call, which: Callable[[Any], bool], change: Callable[[Any], Any]) -> Call:
    made = mapped(call, lambda leaf: change(leaf.detach()) if which(leaf) else leaf)
    # A probe that changes nothing would cost a call, and look like a further agreement.
    if all(one.dtype is other.dtype for one, other in zip(tensors(call), tensors(made), strict=True)):
        raise TargetError("no such input", "")
    return made


def _complex(leaf: Any) -> Any:
    import torch

    if leaf.dtype in (torch.float32, torch.float64):
        return torch.complex(leaf, leaf * 0.5 + 0.25)
    return leaf


def _name(dtype: Any) -> str:
    return str(dtype).partition(".")[2]


# Shapes


def _reshaped(call: Call, change: Callable[[Any], Any]) -> Call:
    """Change all tensors that have the batch of the first one."""
    every = [leaf for leaf in tensors(call) if leaf.dim()]
    if not every or not every[0].shape[0]:
        raise TargetError("no input with a batch", "")
    batch = every[0].shape[0]

    def changed(leaf: Any) -> Any:
        if not leaf.dim() or leaf.shape[0] != batch:
            return leaf
        return change(leaf.detach()).clone().requires_grad_(leaf.requires_grad)

    return mapped(call, changed)


def _size(call: Call, dimension: int) -> int:
    found = [leaf.shape[dimension] for leaf in tensors(call) if dimension < leaf.dim()]
    if not found:
        raise TargetError("no such dimension", "")
    return int(found[0])


def _without_dimensions(call: Call) -> Call:
    """Pass the first element of each tensor: what is added on one side of a branch may have a dimension."""
    if all(leaf.dim() == 0 or not leaf.numel() for leaf in tensors(call)):
        raise TargetError("they have none", "")
    return mapped(call, lambda leaf: leaf.detach().reshape(-1)[0].clone() if leaf.dim() and leaf.numel() else leaf)


def _grown(call: Call, dimension: int) -> Call:
    return resized(call, dimension, _size(call, dimension) + 1)


def _single(call: Call, dimension: int) -> Call:
    if _size(call, dimension) == 1:
        raise TargetError("it is 1 already", "")
    return resized(call, dimension, 1)


def _all_single(call: Call) -> Call:
    """Pass tensors with as many dimensions and one element: `squeeze()` drops all of these."""
    if all(leaf.numel() < 2 for leaf in tensors(call)):
        raise TargetError("they have one element", "")
    return mapped(
        call,
        lambda leaf: (
            leaf.detach().reshape(-1)[:1].reshape((1,) * leaf.dim()).clone().requires_grad_(leaf.requires_grad)
            if leaf.numel() > 1
            else leaf
        ),
    )

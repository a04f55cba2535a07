"""The values in what a call gets and returns, also in objects that are no tree for torch: a batch, a dataclass.

Of an object that holds tensors, numbers and flags beside them count as well; one without any, such as a configuration,
is a value of its own.
"""

import copy
import itertools
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from ctrace.inspector.capture.calls import call_tensors
from ctrace.inspector.capture.calls.ways import Call
from ctrace.inspector.capture.comparing.containers import slots_of
from ctrace.inspector.errors import TargetError

_DEEPEST = 6
"""Objects inside of each other that are searched; a batch of a data loader has two or three."""
_WITHOUT_VALUES = (type, ModuleType, FunctionType, MethodType, BuiltinFunctionType)


def tensors(call: Call) -> list[Any]:
    """List the tensors among the arguments, in order."""
    return list(tensors_in((call.args, call.kwargs)))


def tensors_in(value: Any) -> Iterator[Any]:
    """Yield the tensors that a value holds, in order, one that it holds twice, twice; of an object only once."""
    yield from _tensors(value, {}, _DEEPEST)


def mapped(call: Call, change: Callable[[Any], Any]) -> Call:
    """Change every tensor among the arguments; objects that hold tensors become shallow copies."""
    import torch

    return _changed(call, lambda leaf: change(leaf) if isinstance(leaf, torch.Tensor) else leaf)


def leaves(call: Call) -> list[Any]:
    """List the values among the arguments, in order, of whatever type."""
    return list(_leaves((call.args, call.kwargs), {}, _DEEPEST))


def with_leaves(
    call: Call, which: Callable[[Any], bool], change: Callable[[Any], Any], only: int | None = None
) -> Call:
    """Change some values among the arguments, or `only` one of several.

    Raises:
        TargetError: there is no such value; or it is the only one.
    """
    found = [index for index, leaf in enumerate(leaves(call)) if which(leaf)]
    if only is not None:
        if len(found) > 1:
            found = found[only : only + 1]
        else:
            found = []
    if not found:
        raise TargetError("no such argument", "")
    # Counted, because equal values are often the same object, and only one of them is to change.
    numbers = itertools.count()
    return _changed(call, lambda leaf: change(leaf) if next(numbers) in found else leaf)


def resized(call: Call, dimension: int, size: int) -> Call:
    """Resize a dimension as `call_tensors.resized` does, also of tensors in objects.

    Raises:
        TargetError: no tensor has such a dimension.
    """
    every = tensors(call)
    flat = call_tensors.resized(Call(tuple(every), {}), dimension, size)
    made = {id(one): other for one, other in zip(every, flat.args, strict=True)}
    return mapped(call, lambda leaf: made[id(leaf)])


def _changed(call: Call, change: Callable[[Any], Any]) -> Call:
    args, kwargs = _mapped((call.args, call.kwargs), change, {}, _DEEPEST)
    return Call(args, kwargs)


def attributes_of(value: Any) -> dict[str, Any]:
    """Return what an object holds by name, also in slots; nothing for what only has code: a class, a function."""
    import torch

    if isinstance(value, (*_WITHOUT_VALUES, torch.nn.Module)):
        return {}
    found: dict[str, Any] = {}
    for name, slot in slots_of(type(value)).items():
        with suppress(AttributeError):  # it is not set
            found[name] = slot.__get__(value, type(value))
    own = getattr(value, "__dict__", None)
    if isinstance(own, dict):
        return {**found, **own}
    return found


def _leaves(value: Any, seen: dict[int, Any], deep: int) -> Iterator[Any]:
    from torch.utils import _pytree

    for leaf in _pytree.tree_leaves(value):
        if not _holds_tensors(leaf, deep):
            yield leaf
        # An object may hold itself, and a search must end.
        elif id(leaf) not in seen:
            seen[id(leaf)] = leaf
            yield from _leaves(list(attributes_of(leaf).values()), seen, deep - 1)


def _holds_tensors(leaf: Any, deep: int) -> bool:
    """Whether a value is an object with tensors in it."""
    import torch

    return not isinstance(leaf, torch.Tensor) and deep > 0 and any(True for _ in _tensors(leaf, {}, deep))


def _tensors(value: Any, seen: dict[int, Any], deep: int) -> Iterator[Any]:
    import torch
    from torch.utils import _pytree

    for leaf in _pytree.tree_leaves(value):
        if isinstance(leaf, torch.Tensor):
            yield leaf
        elif deep and id(leaf) not in seen and (parts := attributes_of(leaf)):
            seen[id(leaf)] = leaf
            yield from _tensors(list(parts.values()), seen, deep - 1)


def _mapped(value: Any, change: Callable[[Any], Any], known: dict[int, Any], deep: int) -> Any:
    from torch.utils import _pytree

    def one(leaf: Any) -> Any:
        if not _holds_tensors(leaf, deep):
            return change(leaf)
        if id(leaf) not in known:
            # A copy, because the next probe starts from the same object.
            made = copy.copy(leaf)
            known[id(leaf)] = made
            for name, part in attributes_of(leaf).items():
                # Past the class's own way, which a frozen dataclass refuses.
                object.__setattr__(made, name, _mapped(part, change, known, deep - 1))
        return known[id(leaf)]

    return _pytree.tree_map(one, value)

"""The tensors in what a call gets and returns, also in objects that are no tree for torch: a batch, a dataclass."""

import copy
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from ctrace.inspector.capture.calls.ways import Call
from ctrace.inspector.capture.comparing.containers import slots_of

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
    return {**found, **own} if isinstance(own, dict) else found


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
    import torch
    from torch.utils import _pytree

    def one(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return change(leaf)
        if not deep or not any(True for _ in _tensors(leaf, {}, deep)):
            return leaf
        if id(leaf) not in known:
            made = copy.copy(leaf)
            known[id(leaf)] = made
            for name, part in attributes_of(leaf).items():
                object.__setattr__(made, name, _mapped(part, change, known, deep - 1))
        return known[id(leaf)]

    return _pytree.tree_map(one, value)

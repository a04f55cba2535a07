"""Take results apart, so that later calls cannot change them and two of them can be compared place by place.

A result may be any Python object. Containers and objects with attributes become `ContainerParts`; tensors, numbers and
other plain values stay as they are. What cannot be read without changing it, or has no value of its own, becomes
`Unread`: to run a generator that the model returned would consume it, and may never end. Tensors are copied
(`copy_of`): large ones into a file, so that both results need not fit into memory.
"""

import functools
import inspect
import mmap
import sys
import tempfile
from collections import Counter, deque
from collections.abc import Callable, Iterable
from enum import Enum
from types import FunctionType, ModuleType
from typing import Any

from msgspec import Struct

from ctrace.inspector.capture.calls.calling import CallResults

_LARGE = 16 << 20
"""The size from which a file holds a tensor, in bytes."""


def copy_of(tensor: Any) -> Any:
    """Copy a tensor without its autograd history."""
    plain = tensor.detach()
    if not _fits_file(plain):
        return plain.clone()
    try:
        return _in_file(plain)
    except OSError:  # such as a full disk
        return plain.clone()


def _fits_file(tensor: Any) -> bool:
    import torch

    is_plain = type(tensor) is torch.Tensor and tensor.device.type == "cpu" and tensor.layout is torch.strided
    # A conjugated or negated view, and a quantized tensor, is more than the bytes of its memory.
    if not is_plain or tensor.is_quantized or tensor.is_conj() or tensor.is_neg():
        return False
    return bool(tensor.is_contiguous() and tensor.numel() * tensor.element_size() >= _LARGE)


def _in_file(tensor: Any) -> Any:
    """Write a tensor to a file without a name, and map that: its pages are read when they are needed.

    Raises:
        OSError: it cannot be written.
    """
    import torch

    raw = memoryview(tensor.reshape(-1).view(torch.uint8).numpy())
    with tempfile.TemporaryFile(buffering=0) as file:
        while raw:  # without a buffer, a write may take a part only
            raw = raw[file.write(raw) :]
        # Private pages, as torch warns of memory that cannot be written.
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    return torch.frombuffer(mapped, dtype=tensor.dtype).view(tensor.shape)


_DEEP = 4
"""How many objects may be nested in each other before the inner ones are not read."""
_PLAIN = (bool, int, float, complex, str, bytes, type(None), range, slice, Enum)
_VIEWS: tuple[type, ...] = (type({}.keys()), type({}.values()), type({}.items()))
ITERATOR = "iterator"


class ContainerParts(Struct, frozen=True):
    """A container or an object: its items, keyed by index, key or attribute."""

    kind: str
    """The name of its class."""
    items: dict[Any, Any]
    is_sequence: bool = False


class Unread(Struct, frozen=True):
    """A value that is not compared, except for what it is: an iterator, a function, a lock."""

    kind: str


def taken(results: CallResults, *, copies: bool = True) -> CallResults:
    """Take results apart; copy their tensors unless the caller compares them at once."""
    import torch

    take = _Take(copies=copies)
    # A subclass may override any function of torch, `detach` and `clone` among them.
    with torch._C.DisableTorchFunctionSubclass():
        return CallResults(
            # Only outputs may be objects of any kind; the other groups hold tensors.
            take.part(results.outputs, _DEEP),
            [take.part(each, 0) for each in results.inputs],
            [take.part(each, 0) for each in results.gradients],
            {name: take.part(each, 0) for name, each in results.buffers.items()},
        )


def part_of(value: Any) -> Any:
    """Take one value apart without copying its tensors."""
    import torch

    with torch._C.DisableTorchFunctionSubclass():
        return _Take(copies=False).part(value, _DEEP)


def kind_of(value: Any) -> str:
    """Return the name of a value's class, before it was taken apart."""
    if isinstance(value, ContainerParts | Unread):
        return value.kind
    return type(value).__name__


class _Take:
    """Takes values apart."""

    def __init__(self, *, copies: bool) -> None:
        self._copies = copies
        self._around: set[int] = set()
        """The containers around the current value, since one may contain itself."""

    def part(self, value: Any, deep: int) -> Any:
        """Take one value apart; read objects inside of objects `deep` levels down."""
        import torch

        if isinstance(value, ContainerParts | Unread):
            return value
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, _PLAIN):
            return value
        if id(value) in self._around:
            return Unread("a container of itself")
        self._around.add(id(value))
        try:
            return self._container(value, deep)
        finally:
            self._around.remove(id(value))

    def _container(self, value: Any, deep: int) -> Any:
        kind = type(value).__name__
        each = functools.partial(self.part, deep=deep)
        if isinstance(value, list | tuple | deque):
            return ContainerParts(kind, dict(enumerate(map(each, value))), is_sequence=True)
        if isinstance(value, dict):
            # By the methods of dict itself: a subclass may compute its items.
            keys = _labels(dict.keys(value))
            return ContainerParts(kind, dict(zip(keys, map(each, dict.values(value)), strict=True)))
        if type(value) in _VIEWS:
            return ContainerParts(kind, dict(enumerate(map(each, list(value)))), is_sequence=True)
        if isinstance(value, set | frozenset):
            # Other objects have hashes by address, and so no order in which copies could be compared.
            is_plain = all(isinstance(item, _PLAIN) for item in value)
            return frozenset(value) if is_plain else Unread(kind)
        if isinstance(value, bytearray | memoryview):
            return bytes(value)
        if (array := _of_numpy(value)) is not None:
            return array() if callable(array) else self.part(array, deep)
        if _is_of_torch(value):
            return value
        if hasattr(type(value), "__next__"):
            return Unread(ITERATOR)
        attributes = _attributes(value) if deep else None
        if attributes is None:
            return Unread(kind)
        return ContainerParts(kind, {name: self.part(item, deep - 1) for name, item in attributes.items()})

    def _tensor(self, value: Any) -> Any:
        import torch
        from torch.nn.parameter import is_lazy
        from torch.utils._python_dispatch import is_traceable_wrapper_subclass

        if is_lazy(value):  # a parameter that no call has given its sizes
            return Unread(type(value).__name__)
        if type(value) in (torch.Tensor, torch.nn.Parameter) or value.is_nested:
            if self._copies:
                return copy_of(value)
            return value.detach()
        kind = type(value).__name__
        if is_traceable_wrapper_subclass(value):  # such as a DTensor: compare the tensors inside
            names, _ = value.__tensor_flatten__()
            return ContainerParts(kind, {name: self.part(getattr(value, name), 0) for name in names})
        # The class stays a part of the result: eager may return the subclass, and compiled code a plain tensor.
        plain = value.as_subclass(torch.Tensor)
        return ContainerParts(kind, {"": copy_of(plain) if self._copies else plain.detach()})


def _labels(keys: Iterable[Any]) -> list[Any]:
    """Return keys that a copy of the dict has, too: a tensor, or another object without its own hash, gets a number."""
    seen: Counter[str] = Counter()
    found = []
    for key in keys:
        if _is_lasting(key):
            found.append(key)
        else:
            name = type(key).__name__
            found.append(f"{name} {seen[name]}")
            seen[name] += 1
    return found


def _is_lasting(key: Any) -> bool:
    if isinstance(key, tuple | frozenset):
        return all(map(_is_lasting, key))
    return isinstance(key, (*_PLAIN, type)) or _is_of_torch(key)


def _is_of_torch(value: Any) -> bool:
    """Whether a value is a plain one of torch: a dtype, device, layout or memory format."""
    import torch

    return isinstance(value, torch.dtype | torch.device | torch.layout | torch.memory_format)


def _of_numpy(value: Any) -> Any:
    """Return a NumPy array as a tensor, made by the returned function, and a scalar as Python's; None: it is neither.

    Where NumPy has a scalar, Dynamo has an array without dimensions (2.11 to 2.13, _dynamo/variables/tensor.py,
    `NumpyNdarrayVariable`), which counts as the same value.
    """
    import torch

    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(value, numpy.ndarray | numpy.generic):
        return None
    if value.ndim == 0:
        if value.dtype.kind in "biufc":
            return value.item()
        return Unread(type(value).__name__)

    def made() -> Any:
        try:
            return torch.from_numpy(numpy.array(value, order="C"))  # a copy: torch takes no negative strides
        except TypeError:  # an array of strings, objects or times
            return Unread(type(value).__name__)

    return made


def _attributes(value: Any) -> dict[str, Any] | None:
    """Return an object's attributes, without what is only remembered from computing it once; None: it has none.

    Eager may have computed a `cached_property`, or a lazy property of torch.distributions, where compiled code did not
    need it. No code of the object runs.
    """
    if callable(value) or isinstance(value, type | ModuleType):  # what it is, not what it holds, is the result
        return None
    try:
        attributes = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return {name: item for name, item in dict(attributes).items() if not _is_remembered(type(value), name)}


def _is_remembered(cls: type, name: str) -> bool:
    # A descriptor of the class without `__set__` gives way to the value in the instance that it has computed.
    found = inspect.getattr_static(cls, name, None)
    makes: Callable[..., Any] | None = getattr(type(found), "__get__", None)
    return makes is not None and not hasattr(type(found), "__set__") and not isinstance(found, FunctionType)

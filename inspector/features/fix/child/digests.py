"""Describe values so that two descriptions are equal if and only if the values are, bit for bit."""

import ctypes
import hashlib
import re
from collections import deque
from collections.abc import Iterable
from functools import partial
from itertools import islice
from typing import Any

from ctrace.inspector.features.fix.child.call_values import attributes_of

_ADDRESS = re.compile(r"0x[0-9a-fA-F]{4,}")
_DEEP = 8
"""Levels of containers: objects may lead to the whole program."""
_MOST_ITEMS = 100_000
"""Items of a container; beyond them, only a part is compared."""


class Storages:
    """Names of the memory that tensors share."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}

    def add(self, name: str, tensor: Any) -> None:
        """Name the memory of a tensor; the first name stays."""
        pointer = _pointer(tensor)
        if pointer:
            self._names.setdefault(pointer, name)

    def shared_with(self, tensor: Any) -> str:
        """Return the name of a tensor's memory; empty: the memory has no name yet."""
        return self._names.get(_pointer(tensor), "")


def _pointer(tensor: Any) -> int:
    try:
        return int(tensor.untyped_storage().data_ptr())
    except (RuntimeError, NotImplementedError):  # sparse, nested or without storage
        return 0


def describe(value: Any, storages: Storages | None = None, *, exact: bool = True, name: str = "") -> Any:
    """Return a value as plain data.

    Args:
        storages: names of memory; a tensor that shares memory names it, any other adds its memory under `name`.
        exact: whether zeros of different sign and NaN of different bits differ.
    """
    return _Describer(storages, exact=exact).describe(value, name, _DEEP)


class _Describer:
    def __init__(self, storages: Storages | None, *, exact: bool) -> None:
        self._storages = storages
        self._exact = exact
        self._seen: dict[int, str] = {}

    def describe(self, value: Any, name: str, deep: int) -> Any:
        import torch

        if isinstance(value, torch.Tensor):
            return self._tensor(value, name)
        if value is None or isinstance(value, bool | int | str):
            return [type(value).__name__, repr(value)]
        if isinstance(value, float | complex | bytes):
            return [type(value).__name__, repr(value)]
        # Where the same object stands twice, the description says so: a copy in its place would be a difference.
        if id(value) in self._seen:
            return ["same as", self._seen[id(value)]]
        self._seen[id(value)] = name
        if deep:
            return self._container(value, name, deep)
        return [type(value).__qualname__]

    def _container(self, value: Any, name: str, deep: int) -> Any:
        if isinstance(value, dict):
            items = [
                [plain_repr(key), self.describe(each, f"{name}[{key!r:.40}]", deep - 1)]
                for key, each in list(value.items())[:_MOST_ITEMS]
            ]
            return [type(value).__qualname__, items]
        if isinstance(value, list | tuple | deque):
            return [
                type(value).__qualname__,
                [
                    self.describe(each, f"{name}[{index}]", deep - 1)
                    for index, each in enumerate(islice(value, _MOST_ITEMS))
                ],
            ]
        if isinstance(value, set | frozenset):
            # Sets have no order, and that of texts differs from process to process.
            return [type(value).__qualname__, sorted(map(plain_repr, value))]
        if isinstance(value, partial):
            return ["partial", self.describe([value.func, value.args, value.keywords], name, deep - 1)]
        # Also of an object that can be called: a sampler or a loss may hold what a call computed.
        if attributes := attributes_of(value):
            items = [[key, self.describe(each, f"{name}.{key}", deep - 1)] for key, each in attributes.items()]
            return [type(value).__qualname__, items]
        if callable(value):
            return [type(value).__qualname__, getattr(value, "__qualname__", "")]
        return [type(value).__qualname__, plain_repr(value)]

    def _tensor(self, tensor: Any, name: str) -> Any:
        import torch

        kind = type(tensor).__qualname__
        with torch._C.DisableTorchFunctionSubclass(), torch.no_grad():
            about = [
                kind,
                str(tensor.dtype).removeprefix("torch."),
                list(tensor.shape),
                list(tensor.stride()) if tensor.layout is torch.strided and not tensor.is_nested else [],
                str(tensor.device),
                str(tensor.layout).removeprefix("torch."),
                tensor.requires_grad,
            ]
            shared = ""
            if self._storages is not None:
                shared = self._storages.shared_with(tensor)
                if not shared:
                    self._storages.add(name, tensor)
            return [*about, shared, digest(tensor, exact=self._exact)]


def plain_repr(value: Any) -> str:
    """Return the `repr` of a value without addresses."""
    try:
        return _ADDRESS.sub("0x", repr(value))[:2000]
    except Exception as error:
        return f"repr raised {type(error).__name__}"


_NOT_ONE = re.compile(
    r"RuntimeError: (a Tensor with \d+ elements cannot be converted to Scalar"
    r"|Boolean value of Tensor with (more than one|no) values? is ambiguous"
    r"|shape '\[\]' is invalid for input of size \d+)\.?"
)
"""How torch refuses a tensor of several elements where one is needed: `item()`, `bool()` and `reshape(())`, 2.13."""


def error_text(text: str) -> str:
    """Return the text of an error without addresses, alike whichever op needs one element."""
    return _NOT_ONE.sub("RuntimeError: one element is needed", without_addresses(text))


def without_addresses(text: str) -> str:
    """Drop addresses from a text."""
    return _ADDRESS.sub("0x", text)


def digest(tensor: Any, *, exact: bool = True) -> str:
    """Return a digest of a tensor's values, independent of its strides."""
    import torch

    if tensor.is_meta:
        return "meta"
    with torch._C.DisableTorchFunctionSubclass(), torch.no_grad():
        plain = tensor.detach()
        if type(plain) is not torch.Tensor:
            # The values are those of the memory, whatever the class makes of an op.
            plain = plain.as_subclass(torch.Tensor)
        if plain.is_nested:
            return digest_of(digest(each, exact=exact) for each in plain.unbind())
        if plain.is_quantized:
            plain = plain.int_repr()
        if plain.layout is not torch.strided:
            plain = plain.to_dense()
        # Conjugates and negations may only be noted, so the memory would not have the values.
        plain = plain.resolve_conj().resolve_neg().cpu().contiguous()
        if not exact and plain.is_floating_point():
            # Adding zero makes -0.0 the same as 0.0; one NaN stands for all of them.
            plain = torch.where(plain.isnan(), float("nan"), plain) + 0.0
        size = plain.numel() * plain.element_size()
        data = b""
        if size:
            data = ctypes.string_at(plain.data_ptr(), size)
    return hashlib.blake2b(data, digest_size=12).hexdigest()


def digest_of(parts: Iterable[str]) -> str:
    """Return a digest of several digests."""
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=12).hexdigest()

"""Parse a tensor's guard, and describe its strides."""

import re
from collections.abc import Iterable
from typing import ClassVar

from msgspec import Struct

from ctrace.inspector.facts.guard_facts import Guard
from ctrace.inspector.source.source_names import user_name

_CHECKED = re.compile(
    r"check_tensor\((?P<source>.*), (?P<type>\w+), DispatchKeySet\((?P<keys>[^)]*)\), torch\.(?P<dtype>\w+), "
    r"device=(?P<device>None|\d+), requires_grad=(?P<grad>True|False), size=\[(?P<size>[^\]]*)\], "
    r"stride=\[(?P<stride>[^\]]*)\]\)"
)
_NUMBER = re.compile(r"\s*\d{1,19}\s*")
_PARAMETERS = re.compile(r"\b_(?:parameters|buffers)\b")
Numbers = tuple[int | None, ...]
"""Sizes or strides; None stands for one that may vary."""


class TensorGuard(Struct, frozen=True):
    """The properties of a tensor that a guard checks."""

    JSON: ClassVar[str] = (
        "kind=guard.kind code=guard.code source=guard.source name file=guard.place.file|relative "
        "line=guard.place.line hint=guard.hint class=type dtype device requires_grad dispatch_keys ndim sizes strides "
        "layout parameter=is_parameter"
    )
    guard: Guard
    name: str
    type: str
    dtype: str
    device: str
    """Device type and index; a device of which there is only one has no index."""
    requires_grad: bool
    dispatch_keys: tuple[str, ...]
    sizes: Numbers
    strides: Numbers
    layout: str
    """What the strides mean, in a few words."""

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.sizes)

    @property
    def is_parameter(self) -> bool:
        """Whether the tensor is a parameter or a buffer of a module."""
        return self.type == "Parameter" or _PARAMETERS.search(self.guard.source) is not None


def tensor_guards(guards: Iterable[Guard]) -> tuple[TensorGuard, ...]:
    """Parse the guards on tensors; skip guards in an unknown form."""
    found = ((guard, _CHECKED.match(guard.code)) for guard in guards if guard.kind == "TENSOR_MATCH")
    return tuple(_read(guard, match) for guard, match in found if match is not None)


def _read(guard: Guard, match: re.Match[str]) -> TensorGuard:
    sizes, strides = _numbers(match["size"]), _numbers(match["stride"])
    keys = tuple(key.strip() for key in match["keys"].split(","))
    return TensorGuard(
        guard=guard,
        name=user_name(match["source"]),
        type=match["type"],
        dtype=match["dtype"],
        device=_device(keys, match["device"]),
        requires_grad=match["grad"] == "True",
        dispatch_keys=keys,
        sizes=sizes,
        strides=strides,
        layout=meaning(sizes, strides),
    )


_DEVICES = ("CPU", "CUDA", "MPS", "XPU", "HPU", "XLA", "Meta")


def _device(keys: tuple[str, ...], index: str) -> str:
    name = next((each for each in _DEVICES if any(key.endswith(each) for key in keys)), "?").lower()
    return name if index == "None" else f"{name}:{index}"


def _numbers(text: str) -> Numbers:
    return tuple(int(each) if _NUMBER.fullmatch(each) else None for each in text.split(",") if each.strip())


def meaning(sizes: Numbers, strides: Numbers) -> str:
    """Describe the memory layout that the strides give these sizes."""
    if len(sizes) != len(strides) or not sizes:
        if sizes:
            return "strides not checked"
        return "a single value"
    expanded = [index for index, stride in enumerate(strides) if stride == 0 and sizes[index] != 1]
    if expanded:
        return f"expanded: dimension {_listed(expanded)} repeats the same memory"
    order = sorted(range(len(sizes)), key=lambda index: (-_wide(strides[index]), index))
    gap = _gap(sizes, strides, order)
    if gap is not None:
        return f"not dense: dimension {gap} skips memory of a larger tensor, as in a slice"
    if varying := [index for index, stride in enumerate(strides) if stride is None]:
        return f"dimension {_listed(varying)} may vary, within the relations that torch checks last"
    if order == sorted(order) or _only_ones_move(sizes, order):
        return "contiguous"
    if len(sizes) in (4, 5) and order == [0, *range(2, len(sizes)), 1]:
        return "channels last"
    return f"dense, dimensions in memory order {_listed(order)}: a transpose or permute"


def _wide(stride: int | None) -> float:
    return float("inf") if stride is None else stride


def _gap(sizes: Numbers, strides: Numbers, order: list[int]) -> int | None:
    """Find a dimension whose stride is not the number of elements in the dimensions inside it.

    A fixed stride outside of a dimension of varying size counts, too. A size of 0 counts as 1.
    """
    step: int | None = 1
    inner_varies = False
    for index in reversed(order):
        stride, size = strides[index], sizes[index]
        if size == 1:
            continue
        if stride is not None and (inner_varies or (step is not None and stride != step)):
            return index
        inner_varies = stride is not None and size is None
        step = None if stride is None or size is None else stride * max(size, 1)
    return None


def _only_ones_move(sizes: Numbers, order: list[int]) -> bool:
    moving = [index for index in order if sizes[index] != 1]
    return moving == sorted(moving)


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))

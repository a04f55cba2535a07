"""Find all differences, not only the first, between a tensor and the one that a guard was made for."""

import re
from collections.abc import Iterator
from typing import Any

_CHECKED = re.compile(
    r"check_tensor\((?P<name>.*), (?P<type>\w+), DispatchKeySet\((?P<keys>[^)]*)\), (?P<dtype>torch\.\w+), "
    r"device=(?P<device>None|\d+), requires_grad=(?P<grad>True|False), size=\[(?P<size>[^\]]*)\], "
    r"stride=\[(?P<stride>[^\]]*)\]\)"
)
"""TENSOR_MATCH of guards.py:3560 (2.13): a size or stride of None may vary."""


def differences(code: str, value: Any) -> list[str]:
    """Return each mismatch between a value and the guard `code`, in torch's words; return none if they are unknown."""
    import torch

    match = _CHECKED.match(code)
    if match is None:
        return []
    name = match["name"]
    found = []
    if not isinstance(value, torch.Tensor) or type(value).__name__ != match["type"]:
        found.append(f"expected type of '{name}' to be a tensor type, '{match['type']}' but found {type(value)}")
    if isinstance(value, torch.Tensor):
        found += [f"tensor '{name}' {what} mismatch{was}, actual {now}" for what, was, now in _properties(match, value)]
    return found


def _properties(match: re.Match[str], value: Any) -> Iterator[tuple[str, str, object]]:

    keys, actual = match["keys"], _keys_of(value)
    layout, now = _layout_of(keys), str(value.layout).removeprefix("torch.").removeprefix("_")
    backend = _backend_of(actual)
    # One change of keys fails several of these checks; only the first of them is the reason.
    if layout != now and now != "jagged":
        yield "layout", f". expected {layout}", now
    elif backend and backend != _backend_of(keys):
        yield "device", f". expected {_backend_of(keys).lower() or '?'}", value.device
    elif _kinds(keys) != _kinds(actual) and type(value).__name__ == match["type"]:
        yield "dispatch key set", f". expected DispatchKeySet({keys})", f"DispatchKeySet({actual})"
    elif match["device"] != str(value.device.index):
        yield "device", f". expected {value.device.type}:{match['device']}", value.device
    if match["dtype"] != str(value.dtype):
        yield "dtype", f". expected {match['dtype']}", value.dtype
    if match["grad"] != str(value.requires_grad):
        yield "requires_grad", f". expected {match['grad']}", value.requires_grad
    yield from _shape(_numbers(match["size"]), _numbers(match["stride"]), value)


def _keys_of(value: Any) -> str:
    """Return a tensor's dispatch keys as guards see them: with the keys that the call's modes add and exclude.

    Source: `LocalState::apply`, torch/csrc/dynamo/guards.h (2.13).
    """
    import torch

    keys = torch._C._dispatch_keys(value) | torch._C._dispatch_tls_local_include_set()
    return str(keys - torch._C._dispatch_tls_local_exclude_set()).partition("(")[2].rstrip(")")


def _names(keys: str) -> list[str]:
    return [key.strip() for key in keys.split(",")]


def _kinds(keys: str) -> set[str]:
    """Drop autocast keys, which come from the call's mode and not from the tensor."""
    return {key for key in _names(keys) if not key.startswith("Autocast")}


_BACKEND = re.compile(r"(?:SparseCsr|Sparse|Mkldnn|NestedTensor|Quantized)?(?P<name>CPU|CUDA|Meta|MPS|XPU|HPU|XLA)$")


def _backend_of(keys: str) -> str:
    return next((match["name"] for key in _names(keys) if (match := _BACKEND.match(key))), "")


def _layout_of(keys: str) -> str:
    """Return the layout that dispatch keys imply; they distinguish two sparse layouts."""
    if any(key.startswith("SparseCsr") for key in _names(keys)):
        return "sparse_csr"
    if any(key.startswith("Sparse") for key in _names(keys)):
        return "sparse_coo"
    return "mkldnn" if any(key.startswith("Mkldnn") for key in _names(keys)) else "strided"


def _numbers(text: str) -> list[int | None]:
    return [None if each.strip() == "None" else int(each) for each in text.split(",") if each.strip()]


def _shape(sizes: list[int | None], strides: list[int | None], value: Any) -> Iterator[tuple[str, str, object]]:
    if len(sizes) != value.dim():
        yield "rank", f". expected {len(sizes)}", value.dim()
        return
    for index, (was, now) in enumerate(zip(sizes, value.shape, strict=True)):
        if was is not None and was != now:
            yield "size", f" at index {index}. expected {was}", now
    if not strides or not _has_strides(value):
        return
    if _follows(sizes, strides, list(value.shape), list(value.stride())):
        return
    for index, (was, now) in enumerate(zip(strides, value.stride(), strict=True)):
        if was is not None and was != now:
            yield "stride", f" at index {index}. expected {was}", now


def _has_strides(value: Any) -> bool:
    return str(value.layout) == "torch.strided"


def _follows(sizes: list[int | None], strides: list[int | None], new: list[int], actual: list[int]) -> bool:
    """Whether strides differ only because sizes do: both tensors are dense in the same order of dimensions.

    A size that may vary does not count: strides that depend on it vary, too.
    """
    others = any(was is not None and was != now for was, now in zip(sizes, new, strict=True))
    return others and _dense(new, actual) and _same_order(strides, actual, new)


def _dense(sizes: list[int], strides: list[int]) -> bool:
    step = 1
    for stride, size in sorted(zip(strides, sizes, strict=True)):
        if size != 1 and stride != step:
            return False
        step *= size
    return True


def _same_order(strides: list[int | None], actual: list[int], sizes: list[int]) -> bool:
    """Compare the order of dimensions by stride, ignoring dimensions of size 1 and varying strides."""
    known = [index for index, stride in enumerate(strides) if stride is not None and sizes[index] != 1]
    return sorted(known, key=lambda index: strides[index] or 0) == sorted(known, key=lambda index: actual[index])

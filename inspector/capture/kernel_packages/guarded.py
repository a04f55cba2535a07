"""Call an operator so that a wrong mask shows: every buffer it allocates and every input has values around it.

A kernel that forgets a mask reads behind its input, or leaves a part of its output unwritten. Both often go unnoticed:
the memory behind a tensor is mapped, and a freshly allocated output may still hold the right values of the call before.
So inputs are copied into larger buffers filled with NaN, and buffers that the operator allocates are filled with NaN,
with guard values behind them that must still be there afterwards. The inputs must be what they were before, too.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from msgspec import Struct, field

_AROUND = 1024
"""Elements behind each buffer: a block of a common kernel."""
_GUARD = {"float": float("nan"), "int": 113}


class Guards(Struct):
    """The buffers that were allocated, each with the length that belongs to its tensor."""

    buffers: list[tuple[Any, int]] = field(default_factory=list)
    inputs: list[tuple[Any, Any]] = field(default_factory=list)
    """The inputs, each with the bytes of its memory before the call."""

    def overwritten(self) -> str:
        """Describe the first store outside of a tensor that the operator allocates; empty if there is none."""
        for number, (tensor, before) in enumerate(self.inputs):
            changed = (_bytes(tensor) != before).nonzero()
            if changed.numel():
                at, used = int(changed[0]) // tensor.element_size(), _extent(tensor.shape, tensor.stride())
                where = f"at element {at} of its memory" if at < used else f"at {at - used + 1} past its end"
                return f"the kernel writes to input {number + 1}, {where}"
        for number, (buffer, used) in enumerate(self.buffers):
            behind = buffer[used:]
            kept = behind.isnan() if behind.is_floating_point() else behind == _value_for(behind.dtype)
            if behind.numel() and not bool(kept.all()):
                at = int((~kept).nonzero()[0]) + 1
                return f"the kernel writes behind buffer {number + 1} that it allocates, at {at} past its end"
        return ""


def guarded_call(function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, str]:
    """Call a function, and return its result and a description of a store where it must not write.

    Raises:
        Exception: whatever the function raises.
    """
    import torch

    placed = [surrounded(each) if isinstance(each, torch.Tensor) else each for each in args]
    strided = [each for each in placed if isinstance(each, torch.Tensor) and each.layout is torch.strided]
    guards = Guards(inputs=[(each, _bytes(each).clone()) for each in strided])
    with allocating(guards):
        found = function(*placed, **kwargs)
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return found, guards.overwritten()


def surrounded(tensor: Any) -> Any:
    """Copy a tensor, with its strides, into a larger buffer whose other values are NaN."""
    import torch

    if not tensor.numel() or tensor.layout is not torch.strided:
        return tensor
    if _value_for(tensor.dtype) is None:
        return copied(tensor)
    length = _extent(tensor.shape, tensor.stride())
    return _placed(tensor, _buffer(length + _AROUND, tensor.dtype, tensor.device))


def copied(tensor: Any) -> Any:
    """Copy a tensor with its strides, also where several of its values share memory."""
    import torch

    if not tensor.numel() or tensor.layout is not torch.strided:
        return tensor.detach().clone()
    length = _extent(tensor.shape, tensor.stride())
    return _placed(tensor, torch.empty(length, dtype=tensor.dtype, device=tensor.device))


def _bytes(tensor: Any) -> Any:
    """Return all of the memory that a tensor is in."""
    import torch

    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())


def _placed(tensor: Any, buffer: Any) -> Any:
    """Copy the memory behind a tensor to the start of a buffer, and return the tensor there."""
    plain = tensor.detach()
    length = _extent(plain.shape, plain.stride())
    buffer[:length].copy_(plain.as_strided((length,), (1,), plain.storage_offset()))
    return buffer.as_strided(plain.shape, plain.stride())


def _extent(shape: Sequence[int], stride: Sequence[int]) -> int:
    return 1 + sum((size - 1) * step for size, step in zip(shape, stride, strict=True)) if math.prod(shape) else 0


def _buffer(length: int, dtype: Any, device: Any) -> Any:
    import torch

    return torch.full((length,), _value_for(dtype), dtype=dtype, device=device)


def _value_for(dtype: Any) -> Any:
    """Return the value around tensors of a dtype; None for a dtype that has none."""
    import torch

    if dtype is torch.bool or dtype.is_complex or "float8" in str(dtype) or "float4" in str(dtype):
        return None
    return _GUARD["float" if dtype.is_floating_point else "int"]


@contextmanager
def allocating(guards: Guards) -> Iterator[None]:
    """Fill what is allocated in the block, and put guard values behind it."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    aten = torch.ops.aten
    empties = {
        aten.empty.memory_format, aten.empty_strided.default, aten.empty_like.default, aten.new_empty.default,
        aten.new_empty_strided.default, aten.empty_permuted.default,
    }  # fmt: skip

    class Allocating(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            made = func(*args, **(kwargs or {}))
            if func not in empties or not made.numel() or _value_for(made.dtype) is None:
                return made
            length = _extent(made.shape, made.stride())
            buffer = _buffer(length + _AROUND, made.dtype, made.device)
            guards.buffers.append((buffer, length))
            return buffer.as_strided(made.shape, made.stride())

    with Allocating():
        yield

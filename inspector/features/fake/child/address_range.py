"""Make CPU tensors whose storage is a size and an address, and no memory.

A FakeTensor in place of a weight would change what is to be shown: Dynamo guards on its type and dispatch keys, and
libraries take other paths for it. So a tensor without values is an ordinary CPU tensor here: its type, dispatch keys,
strides and the size of its storage are those of a real one. Only its memory lies in a range of addresses that the
process reserved without access. Writing to it raises (`torch._C._set_throw_on_mutable_data_ptr`, 2.11 to 2.13), and
reading it ends the process, so that nobody mistakes it for zeros.
"""

import ctypes
import mmap
from functools import cache
from typing import Any

_ALIGNMENT = 64
"""Torch's CPU allocator aligns to 64 bytes (c10/core/alignment.h); Inductor asks for 16."""
_LARGEST = 64 << 40
_SMALLEST = 1 << 40
_NO_ACCESS = 0
_NO_RESERVE = 0x4000
"""`MAP_NORESERVE` of Linux, which Python 3.11 does not name."""
_FAILED = ctypes.c_void_p(-1).value


class AddressRange:
    """Addresses without memory, given out one after the other; they begin again at the end of the range."""

    def __init__(self) -> None:
        self._begin, self._size = _reserved()
        self._next = 0

    def holds(self, address: int) -> bool:
        """Whether an address lies in the range."""
        return 0 <= address - self._begin < self._size

    def take(self, count: int) -> int:
        """Return the first of `count` addresses.

        Raises:
            MemoryError: the range is smaller than that.
        """
        if count > self._size:
            raise MemoryError(f"a tensor of {count} bytes is larger than the {self._size} addresses reserved for it")
        if self._next + count > self._size:
            self._next = 0
        taken = self._begin + self._next
        self._next += -(-max(count, 1) // _ALIGNMENT) * _ALIGNMENT
        return taken


def _reserved() -> tuple[int, int]:
    """Reserve as many addresses as the system gives (`ulimit -v` may forbid most)."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    size = _LARGEST
    while size >= _SMALLEST:
        begin = libc.mmap(None, size, _NO_ACCESS, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE, -1, 0)
        if begin not in (None, _FAILED):
            return begin, size
        size //= 2
    raise MemoryError("the system reserves no addresses for tensors without storage (ulimit -v)")


@cache
def addresses() -> AddressRange:
    """Return the range of this process."""
    return AddressRange()


def storageless(size: Any, stride: Any, dtype: Any, offset: int = 0) -> Any:
    """Return a CPU tensor of this size and stride, without memory."""
    import torch
    from torch.utils._python_dispatch import _disable_current_modes

    reach = offset + 1 + sum((length - 1) * step for length, step in zip(size, stride, strict=True))
    count = 0 if 0 in size else reach * dtype.itemsize
    with _disable_current_modes(), torch.no_grad():
        storage = torch._C._construct_storage_from_data_pointer(addresses().take(count), torch.device("cpu"), count)
        made = torch.empty(0, dtype=dtype).set_(storage, offset, tuple(size), tuple(stride))
    torch._C._set_throw_on_mutable_data_ptr(made)
    return made


def has_no_memory(tensor: Any) -> bool:
    """Whether an ordinary strided tensor was made by `storageless`, or is a view of such a one."""
    import torch

    bindings: Any = torch._C  # its stub lacks `_data_address` (2.11 to 2.13)
    return addresses().holds(bindings._data_address(tensor))

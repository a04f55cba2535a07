"""CPU tensors whose storage is a size and an address, and no memory (`without_storage`), and whose size may change.

FSDP changes the sizes of storages (`resizable_storages`). It sets the size to 0 to free what it has gathered, and later
back (2.13, distributed/fsdp/_fully_shard/_fsdp_param.py, `free_storage`, `alloc_storage`). Torch refuses that for
memory that it did not allocate, and the addresses of such a storage take no memory anyway. So only the size that the
program reads changes. FSDP compares addresses of storages, too (`reset_sharded_param`), which torch refuses for a
storage that must not be written to. Only torch itself gets them: a program that asks for an address reads what lies
there.

A FakeTensor in place of a weight would change what is to be shown: Dynamo guards on its type and dispatch keys, and
libraries take other paths for it. So a tensor without values is an ordinary CPU tensor here: its type, dispatch keys,
strides and the size of its storage are those of a real one. Only its memory lies in a range of addresses that the
process reserved without access. Writing to it raises (`torch._C._set_throw_on_mutable_data_ptr`, 2.11 to 2.13), and
reading it ends the process, so that nobody mistakes it for zeros.
"""

import ctypes
import mmap
import sys
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache, wraps
from typing import Any

from msgspec.structs import replace

from ctrace.inspector.capture.calls.ways import Call
from ctrace.inspector.capture.core.callers import folder_of_torch
from ctrace.inspector.capture.core.patch import patched

_ALIGNMENT = 64
"""Torch's CPU allocator aligns to 64 bytes (c10/core/alignment.h); Inductor asks for 16."""
_LARGEST = 64 << 40
_SMALLEST = 1 << 40
# PROT_NONE (mman.h), which the module `mmap` does not name.
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
        # Addresses may repeat: nothing is stored there.
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
        # A limit on the process's addresses may be below any fixed size.
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
    count = 0
    if 0 not in size:
        count = reach * dtype.itemsize
    # Outside of the modes, which would make a tensor without values, or record the op as the program's.
    with _disable_current_modes(), torch.no_grad():
        storage = torch._C._construct_storage_from_data_pointer(addresses().take(count), torch.device("cpu"), count)
        made = torch.empty(0, dtype=dtype).set_(storage, offset, tuple(size), tuple(stride))
    # Writing to memory that is not there would end the process, and torch can raise an error instead.
    torch._C._set_throw_on_mutable_data_ptr(made)
    return made


def has_no_memory(tensor: Any) -> bool:
    """Whether an ordinary strided tensor was made by `storageless`, or is a view of such a one."""
    import torch

    bindings: Any = torch._C  # its stub lacks `_data_address` (2.11 to 2.13)
    return addresses().holds(bindings._data_address(tensor))


def is_on_meta(module: Any) -> bool:
    """Whether a module has parameters on the meta device, so that it cannot be called with values."""
    return any(each.device.type == "meta" for each in module.parameters())


def without_storage(module: Any) -> None:
    """Replace each parameter that has a storage, and each tensor on the meta device.

    A parameter that several modules share stays shared. A buffer keeps its values if the program computed them from
    constants.
    """
    replaced: dict[int, Any] = {}
    for part in module.modules():
        for owner in (part._parameters, part._buffers):
            for name, tensor in owner.items():
                if tensor is None or not _is_plain(tensor):
                    continue
                # A tensor on the meta device cannot become one on the CPU in place. Tied weights stay one tensor.
                if tensor.device.type == "meta":
                    if id(tensor) not in replaced:
                        replaced[id(tensor)] = _like(tensor)
                    owner[name] = replaced[id(tensor)]
                elif owner is part._parameters and not has_no_memory(tensor):
                    # In place, so that an optimizer that holds the parameter still has it.
                    tensor.data = storageless(tensor.size(), tensor.stride(), tensor.dtype)


def call_without_storage(call: Call) -> Call:
    """Replace the tensors on the meta device among the arguments; one that is passed twice stays one."""
    import torch
    from torch.utils import _pytree

    replaced: dict[int, Any] = {}

    def there(tensor: Any) -> Any:
        if tensor.device.type != "meta" or not _is_plain(tensor):
            return tensor
        return replaced.setdefault(id(tensor), _like(tensor).requires_grad_(tensor.requires_grad))

    args, kwargs = _pytree.tree_map_only(torch.Tensor, there, (call.args, call.kwargs))
    return replace(call, args=args, kwargs=kwargs)


def _is_plain(tensor: Any) -> bool:
    """Whether a tensor is a strided one, on the CPU or the meta device, of no class that wraps others."""
    import torch

    is_lazy = torch.nn.parameter.is_lazy(tensor)
    is_wrapper = type(tensor).__torch_dispatch__ is not torch._C._disabled_torch_dispatch_impl
    return not is_lazy and not is_wrapper and tensor.layout is torch.strided and tensor.device.type in ("cpu", "meta")


def _like(tensor: Any) -> Any:
    """Return a tensor on the CPU without storage, for one on the meta device."""
    import torch

    made = storageless(tensor.size(), tensor.stride(), tensor.dtype, tensor.storage_offset())
    if isinstance(tensor, torch.nn.Parameter):
        made = torch.nn.Parameter(made, requires_grad=tensor.requires_grad)
        made.__dict__.update(tensor.__dict__)
    return made


@contextmanager
def resizable_storages() -> Iterator[None]:
    """Follow the sizes that are set in the block."""
    import torch

    sizes: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
    kind: Any = torch.UntypedStorage
    home = folder_of_torch()

    def resizing(original: Any) -> Any:
        @wraps(original)
        def resize_(storage: Any, size: int) -> Any:
            if _address_without_memory(storage) is None:
                return original(storage, size)
            sizes[storage] = int(size)
            return storage

        return resize_

    def reading(original: Any) -> Any:
        @wraps(original)
        def size(storage: Any) -> Any:
            found = sizes.get(storage)
            return original(storage) if found is None else found

        return size

    def addressing(original: Any) -> Any:
        @wraps(original)
        def data_ptr(storage: Any) -> Any:
            # Only torch's FSDP asks here about storages that it frees and fills; others must get torch's own answer.
            if not sys._getframe(1).f_code.co_filename.startswith(home):
                return original(storage)
            found = _address_without_memory(storage)
            return original(storage) if found is None else found

        return data_ptr

    with ExitStack() as patches:
        patches.enter_context(patched(kind, "data_ptr", addressing(kind.data_ptr)))
        patches.enter_context(patched(kind, "resize_", resizing(kind.resize_)))
        for name in ("size", "nbytes"):
            patches.enter_context(patched(kind, name, reading(getattr(kind, name))))
        yield


def _address_without_memory(storage: Any) -> int | None:
    """Return the address of a storage that has no memory; None: it has some."""
    import torch
    from torch.utils._python_dispatch import _disable_current_modes

    if storage.device.type != "cpu":
        return None
    with _disable_current_modes(), torch.no_grad():
        whole = torch.empty(0, dtype=torch.uint8).set_(storage)
    bindings: Any = torch._C  # its stub lacks `_data_address` (2.11 to 2.13)
    if not has_no_memory(whole):
        return None
    return int(bindings._data_address(whole))

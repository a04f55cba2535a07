"""Let a program change the size of a storage that has no memory, as FSDP does to free what it has gathered.

FSDP sets the size to 0 and later back (2.13, distributed/fsdp/_fully_shard/_fsdp_param.py, `free_storage`,
`alloc_storage`). Torch refuses that for memory that it did not allocate, and the addresses of such a storage take no
memory anyway. So only the size that the program reads changes. FSDP compares addresses of storages, too
(`reset_sharded_param`), which torch refuses for a storage that must not be written to. Only torch itself gets them: a
program that asks for an address reads what lies there.
"""

import sys
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any

from ctrace.inspector.capture.core.callers import folder_of_torch
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.features.fake.child.address_range import has_no_memory


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
    return int(bindings._data_address(whole)) if has_no_memory(whole) else None

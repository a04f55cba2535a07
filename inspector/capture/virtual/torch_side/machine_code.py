"""One function in machine code: it gives the default stream of CUDA's device 0, as torch's C++ code takes it.

`c10::Stream` (c10/core/Stream.h: type and index of the device, a byte each, and an id of 8 bytes) is given back in two
registers, which no callback of ctypes can do.
"""

import ctypes
import mmap
import platform
from functools import cache

_CODE = {
    # mov eax, 1; xor edx, edx; ret
    "x86_64": bytes.fromhex("b801000000 31d2 c3"),
    # mov x0, 1; mov x1, 0; ret
    "aarch64": bytes.fromhex("200080d2 010080d2 c0035fd6"),
}
_pages: list[mmap.mmap] = []
_READ, _EXECUTE = 1, 4
"""Of mprotect(2)."""


class NoMachineCodeError(Exception):
    """This machine does not take our code; says why."""


@cache
def default_stream() -> int:
    """Give the function's address; it stays as long as the process.

    Raises:
        NoMachineCodeError: the processor is another one, or the system allows no such code.
    """
    code = _CODE.get(platform.machine())
    if code is None:
        msg = f"processors of type {platform.machine()} are not known"
        raise NoMachineCodeError(msg)
    page = mmap.mmap(-1, mmap.PAGESIZE)
    page.write(code)
    _pages.append(page)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    if ctypes.CDLL(None).mprotect(ctypes.c_void_p(address), ctypes.c_size_t(mmap.PAGESIZE), _READ | _EXECUTE):
        msg = "the system does not allow new code in a process"
        raise NoMachineCodeError(msg)
    return address

"""Torch's C++ side by its symbols and addresses: two words of it that are exchanged for a while, and put back.

One leads to the functions of the object that answers for CUDA (`at::detail::getCUDAHooks`), the other is CUDA's entry
in `c10::impl::device_guard_impl_registry`. So no compiler is needed; a torch that looks otherwise is refused.

Where torch's virtual functions lie: in the order in which torch's own headers declare them.

By the Itanium C++ ABI (that of Linux and macOS) the functions of an object lie in a table in the order of their
declaration, those of the base class first, and a function that overrides one keeps the place of that. The headers are
part of every torch wheel, of the same build.

One function in machine code: it gives the default stream of CUDA's device 0, as torch's C++ code takes it.

`c10::Stream` (c10/core/Stream.h: type and index of the device, a byte each, and an id of 8 bytes) is given back in two
registers, which no callback of ctypes can do.
"""

import ctypes
import mmap
import platform
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from ctrace.inspector.capture.virtual.torch_side.vtables import Table, UnknownTorchError, symbol_covers, word_at

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


HOOKS = ("ATen/detail/AcceleratorHooksInterface.h", "ATen/detail/CUDAHooksInterface.h")
"""Of `at::CUDAHooksInterface`, which torch's C++ code asks about CUDA: the base class, and itself (2.11 to 2.13)."""
GUARD = ("c10/core/impl/DeviceGuardImplInterface.h",)
"""Of `c10::impl::DeviceGuardImplInterface`, which it asks about devices and streams."""

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_ONLY_ROCM = re.compile(r"^#ifdef USE_ROCM\b.*?^#endif", re.DOTALL | re.MULTILINE)
_VIRTUAL = re.compile(r"\bvirtual\s[^({;]*?(~|\b)(\w+)\s*\(")


def slots_of(include: Path, headers: tuple[str, ...]) -> list[str]:
    """Give the functions' names in the order of the table, from headers below `include`; a destructor (`~`) has two.

    Raises:
        OSError: a header is missing.
        UnicodeDecodeError: it is no text.
    """
    slots: list[str] = []
    for header in headers:
        text = _ONLY_ROCM.sub("", _COMMENT.sub(" ", (include / header).read_text(encoding="utf-8")))
        for tilde, name in _VIRTUAL.findall(text):
            function = tilde or name
            if function not in slots:
                slots += [function] * (2 if tilde else 1)
    return slots


_HOOKS = "_ZN2at6detail12getCUDAHooksEv"
_INTERFACE = "_ZTVN2at18CUDAHooksInterfaceE"
_GUARDS = "_ZN3c104impl26device_guard_impl_registryE"
_CUDA = 1
"""`c10::DeviceType` (torch/headeronly/core/DeviceType.h)."""


class Native:
    """The C++ side of the torch that is imported.

    Raises:
        UnknownTorchError: it is not as expected.
    """

    def __init__(self) -> None:
        import torch

        # A look-up in this library goes on in those that it needs: libtorch_cpu and libc10.
        self._library = ctypes.CDLL(torch._C.__file__)
        self._hook_slots = _declared(HOOKS)
        self._guard_slots = _declared(GUARD)
        symbol_covers(self._address(_INTERFACE), Table.words(self._hook_slots))
        self._hooks = word_at(self._hooks_address())
        self._guard = word_at(self._address(_GUARDS) + _CUDA * ctypes.sizeof(ctypes.c_void_p))
        # Never freed: another thread of the program may be on its way through a table when it is put back.
        self._kept: list[Table] = []

    @contextmanager
    def answering(self, answers: Mapping[str, Any]) -> Iterator[None]:
        """Have CUDA's hooks answer by these C functions until the end of the block.

        Raises:
            UnknownTorchError: there is no hook of such a name.
        """
        table = Table.copied(self._hooks, self._hook_slots)
        self._kept.append(table)
        for name, answer in answers.items():
            table.replace(name, answer)
        with _exchanged(self._hooks, table.functions):
            yield

    @contextmanager
    def guarding(self) -> Iterator[None]:
        """Have one device of CUDA, with nothing but its default stream, until the end of the block.

        Raises:
            UnknownTorchError: none could be made.
        """
        with _exchanged(self._guard, self._stand_in.object):
            yield

    @cached_property
    def without_stream(self) -> str:
        """Why the device has not even a default stream, which autograd needs; empty: it has."""
        try:
            default_stream()
        except NoMachineCodeError as error:
            return str(error)
        return ""

    @cached_property
    def _stand_in(self) -> Table:
        """Make a guard that does nothing, and gives the default stream of device 0.

        Torch's own that does nothing, `NoOpDeviceGuardImpl`, gives a stream of device -1, with which autograd would
        read beside a vector.
        """
        guard = Table.copied(word_at(self._idle()), self._guard_slots)
        for name in () if self.without_stream else ("getStream", "getDefaultStream"):
            guard.replace(name, default_stream())
        return guard

    def _idle(self) -> int:
        """Have torch make a guard that does nothing, and give its address.

        It does so where CUDA's guard says that there are no devices (`ensureCUDADeviceGuardSet`,
        c10/core/impl/DeviceGuardImplInterface.cpp). Without CUDA there is none, so it is shown one that says that.
        """
        import torch

        none = Table.of_one(ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_void_p)(lambda _guard: 0), self._guard_slots)
        with _exchanged(self._guard, self._guard.value or none.object):
            torch._C._ensureCUDADeviceGuardSet()
            made = self._guard.value
        if made is None or made == none.object:
            msg = "torch made no device guard"
            raise UnknownTorchError(msg)
        return made

    def _hooks_address(self) -> int:
        get = getattr(self._library, _HOOKS, None)
        if get is None:
            raise UnknownTorchError(_missing(_HOOKS))
        get.restype = ctypes.c_void_p
        return int(get())

    def _address(self, symbol: str) -> int:
        try:
            return ctypes.addressof(ctypes.c_void_p.in_dll(self._library, symbol))
        except ValueError:
            raise UnknownTorchError(_missing(symbol)) from None


def _declared(headers: tuple[str, ...]) -> list[str]:
    import torch

    try:
        return slots_of(Path(torch.__file__).parent / "include", headers)
    except (OSError, UnicodeDecodeError) as error:
        msg = f"torch's headers cannot be read: {error}"
        raise UnknownTorchError(msg) from None


def _missing(symbol: str) -> str:
    return f"torch has no {symbol}"


@contextmanager
def _exchanged(word: ctypes.c_void_p, value: int) -> Iterator[None]:
    before = word.value
    word.value = value
    try:
        yield
    finally:
        word.value = before

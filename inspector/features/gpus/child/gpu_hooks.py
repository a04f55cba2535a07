"""Answer the questions of torch's C++ side about the target GPU (`Hooks`).

Autograd asks for the stream of each tensor's device, even a fake tensor's, and the process aborts if that device has
no guard (torch/csrc/autograd/input_metadata.cpp). Its engine synchronizes the streams of the accelerator that torch
was built for, if that has a context (engine.cpp, `GraphTask::stash_current_streams`). Operators ask CUDA's hooks what
cuDNN supports (aten/src/ATen/native/Convolution.cpp, `ConvParams`), which partly depends on the device.

Two words in the memory of torch's C++ side are patched for the time of a block; no compiler is needed. One word points
to the virtual functions of the object that answers for CUDA (`at::detail::getCUDAHooks`); the other is CUDA's entry in
`c10::impl::device_guard_impl_registry`. A torch with another layout is refused.

The order of virtual functions comes from torch's headers, which every torch wheel contains. In the Itanium C++ ABI
(Linux and macOS), a vtable lists the functions in the order of declaration, the base class first, and an override
keeps the place of the overridden function.

One function is machine code: it returns the default stream of CUDA device 0. C++ returns a `c10::Stream`
(c10/core/Stream.h: device type and index, a byte each, and an id of 8 bytes) in two registers, which a ctypes callback
cannot do.
"""

import ctypes
import mmap
import platform
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Self

_CODE = {
    # mov eax, 1; xor edx, edx; ret
    "x86_64": bytes.fromhex("b801000000 31d2 c3"),
    # mov x0, 1; mov x1, 0; ret
    "aarch64": bytes.fromhex("200080d2 010080d2 c0035fd6"),
}
_pages: list[mmap.mmap] = []
_READ, _EXECUTE = 1, 4
"""Flags of mprotect(2)."""
_WORD = ctypes.sizeof(ctypes.c_void_p)
_BEFORE = 2
"""Words of a table before its first function: an offset and the type info."""


class NoMachineCodeError(Exception):
    """This machine cannot run ctrace's machine code; the message says why."""


@cache
def default_stream() -> int:
    """Return the address of a function that returns the default stream; it is valid as long as the process lives.

    Raises:
        NoMachineCodeError: the processor is unknown, or the system allows no new machine code.
    """
    code = _CODE.get(platform.machine())
    if code is None:
        msg = f"processors of type {platform.machine()} are not supported"
        raise NoMachineCodeError(msg)
    page = mmap.mmap(-1, mmap.PAGESIZE)
    page.write(code)
    _pages.append(page)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    # Writable first and executable then: many systems allow no page that is both.
    if ctypes.CDLL(None).mprotect(ctypes.c_void_p(address), ctypes.c_size_t(mmap.PAGESIZE), _READ | _EXECUTE):
        msg = "the system does not allow a process to add machine code"
        raise NoMachineCodeError(msg)
    return address


HOOKS = ("ATen/detail/AcceleratorHooksInterface.h", "ATen/detail/CUDAHooksInterface.h")
"""Headers of `at::CUDAHooksInterface`, which torch's C++ code asks about CUDA, base class first (2.11 to 2.13)."""
GUARD = ("c10/core/impl/DeviceGuardImplInterface.h",)
"""Header of `c10::impl::DeviceGuardImplInterface`, which torch's C++ code asks about devices and streams."""
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
# Functions that only a build for ROCm has: counted, they would move all that follow.
_ONLY_ROCM = re.compile(r"^#ifdef USE_ROCM\b.*?^#endif", re.DOTALL | re.MULTILINE)
_VIRTUAL = re.compile(r"\bvirtual\s[^({;]*?(~|\b)(\w+)\s*\(")


def slots_of(include: Path, headers: tuple[str, ...]) -> list[str]:
    """Return the functions' names in vtable order, from headers below `include`; a destructor (`~`) has two entries.

    Raises:
        OSError: a header is missing.
        UnicodeDecodeError: a header is not text.
    """
    slots: list[str] = []
    for header in headers:
        text = _ONLY_ROCM.sub("", _COMMENT.sub(" ", (include / header).read_text(encoding="utf-8")))
        for tilde, name in _VIRTUAL.findall(text):
            function = tilde or name
            # An override in the derived class keeps the place of the base's function.
            if function not in slots:
                slots += [function] * (2 if tilde else 1)
    return slots


_HOOKS = "_ZN2at6detail12getCUDAHooksEv"
_INTERFACE = "_ZTVN2at18CUDAHooksInterfaceE"
_ALLOCATOR = "_ZN3c1015GetCPUAllocatorEv"
_GUARDS = "_ZN3c104impl26device_guard_impl_registryE"
_CUDA = 1
"""`c10::DeviceType` (torch/headeronly/core/DeviceType.h)."""


class Table:
    """A vtable in ctrace's memory, and an object that points to it."""

    def __init__(self, words: Sequence[int | None], slots: Sequence[str]) -> None:
        self._words = (ctypes.c_void_p * len(words))(*words)
        self._slots = slots
        self._used: list[Any] = []
        self._object = ctypes.c_void_p(self.functions)

    @classmethod
    def copied(cls, table: ctypes.c_void_p, slots: Sequence[str]) -> Self:
        """Copy the vtable that `table`, an object's first word, points to."""
        start = (table.value or 0) - _BEFORE * _WORD
        return cls((ctypes.c_void_p * cls.words(slots)).from_address(start)[:], slots)

    @classmethod
    def of_one(cls, function: Any, slots: Sequence[str]) -> Self:
        """Make a table with the same function in every slot."""
        table = cls([None] * cls.words(slots), slots)
        for name in slots:
            table.replace(name, function)
        return table

    @staticmethod
    def words(slots: Sequence[str]) -> int:
        """Return the number of words in a table of these functions."""
        return _BEFORE + len(slots)

    @property
    def functions(self) -> int:
        """The address of the first function, which objects point to."""
        return ctypes.addressof(self._words) + _BEFORE * _WORD

    @property
    def object(self) -> int:
        """The address of an object that consists only of a pointer to this table."""
        return ctypes.addressof(self._object)

    def replace(self, name: str, function: Any) -> None:
        """Replace the function with this name by a C function, which the table keeps alive, or by an address.

        Raises:
            UnknownTorchError: there is no such function.
        """
        self._used.append(function)
        address = function if isinstance(function, int) else ctypes.cast(function, ctypes.c_void_p).value
        self._words[self._place(name)] = address

    def _place(self, name: str) -> int:
        if name not in self._slots:
            msg = f"torch has no virtual function {name}"
            raise UnknownTorchError(msg)
        return _BEFORE + self._slots.index(name)


class Native:
    """The C++ side of the imported torch.

    Raises:
        UnknownTorchError: its layout is not the expected one.
    """

    def __init__(self) -> None:
        import torch

        # A lookup in this library continues in its dependencies: libtorch_cpu and libc10.
        self._library = ctypes.CDLL(torch._C.__file__)
        self._hook_slots = _declared(HOOKS)
        self._guard_slots = _declared(GUARD)
        symbol_covers(self._address(_INTERFACE), Table.words(self._hook_slots))
        self._hooks = word_at(self._hooks_address())
        self._guard = word_at(self._address(_GUARDS) + _CUDA * ctypes.sizeof(ctypes.c_void_p))
        # Never freed: another thread may still be calling through a table after torch's word is restored.
        self._kept: list[Table] = []

    @contextmanager
    def answering(self, answers: Mapping[str, Any]) -> Iterator[None]:
        """Replace the CUDA hooks with these names by these C functions until the end of the block.

        Raises:
            UnknownTorchError: there is no hook with such a name.
        """
        table = Table.copied(self._hooks, self._hook_slots)
        self._kept.append(table)
        for name, answer in answers.items():
            table.replace(name, answer)
        with _exchanged(self._hooks, table.functions):
            yield

    @contextmanager
    def guarding(self) -> Iterator[None]:
        """Present one CUDA device, with only its default stream, until the end of the block.

        Raises:
            UnknownTorchError: the guard could not be made.
        """
        with _exchanged(self._guard, self._stand_in.object):
            yield

    @cached_property
    def without_stream(self) -> str:
        """Why the device has no default stream, which autograd needs; "" if it has one."""
        try:
            default_stream()
        except NoMachineCodeError as error:
            return str(error)
        return ""

    @cached_property
    def _stand_in(self) -> Table:
        """Make a guard that does nothing except return the default stream of device 0.

        Torch's own no-op guard, `NoOpDeviceGuardImpl`, returns a stream of device -1; with that index, autograd would
        read outside a vector.
        """
        guard = Table.copied(word_at(self._idle()), self._guard_slots)
        for name in () if self.without_stream else ("getStream", "getDefaultStream"):
            guard.replace(name, default_stream())
        return guard

    def _idle(self) -> int:
        """Make torch create a guard that does nothing, and return its address.

        Torch creates one if CUDA's guard reports no devices (`ensureCUDADeviceGuardSet`,
        c10/core/impl/DeviceGuardImplInterface.cpp). Without CUDA there is no guard, so present one that reports none.
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

    def allocator(self) -> int:
        """Return the address of the allocator of the CPU."""
        get = getattr(self._library, _ALLOCATOR, None)
        if get is None:
            raise UnknownTorchError(_missing(_ALLOCATOR))
        get.restype = ctypes.c_void_p
        return int(get())

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


_VOLTA, _AMPERE = 7, 8
"""The first major compute capabilities with certain cuDNN features (aten/src/ATen/cuda/detail/CUDAHooks.cpp)."""
_CUDNN = 91900
"""cuDNN 9.19.0, the version in torch 2.11.0+cu130: `torch.backends.cudnn.version()` there."""
_EPSILON = 1e-5
"""The smallest epsilon of a batch norm in cuDNN (`CUDNN_BN_MIN_EPSILON`, 2.11)."""


class Hooks:
    """Answers torch's C++ side as a GPU of one compute capability would."""

    def __init__(self, capability: tuple[int, int]) -> None:
        self._major = capability[0]
        self._native: Native | None = None
        self._refused: str | None = None

    def refused(self) -> str:
        """Return why this torch cannot be patched, or "" if it can; unpatched, tracing a backward would abort."""
        if self._refused is None:
            self._refused = self._prepared()
        return self._refused

    @contextmanager
    def presented(self) -> Iterator[None]:
        """Present the GPU to torch's C++ side until the end of the block, if this torch can be patched."""
        with ExitStack() as stack:
            self.refused()
            if self._native is not None:
                self._show(self._native, stack)
            yield

    def _prepared(self) -> str:
        try:
            native = Native()
            with ExitStack() as stack:
                self._show(native, stack)
        except UnknownTorchError as error:
            return str(error)
        self._native = native
        return native.without_stream

    def _show(self, native: Native, stack: ExitStack) -> None:
        """Answer what differs from a local GPU; without a local GPU, answer everything."""
        import torch

        answers = self._of_device()
        # With a real GPU, torch's own guard and hooks work, and only what depends on the capability is answered.
        if torch.cuda.device_count():
            stack.enter_context(native.answering(answers))
            return
        _start_engine()
        answers |= _of_cuda() if torch.version.cuda else _of_cuda() | _of_cudnn()
        stack.enter_context(native.answering(answers))
        stack.enter_context(native.guarding())

    def _of_device(self) -> dict[str, Any]:
        return {
            "supportsDepthwiseConvolutionWithCuDNN": _answer(ctypes.c_bool, self._major >= _VOLTA),
            "supportsBFloat16ConvolutionWithCuDNNv8": _answer(ctypes.c_bool, self._major >= _AMPERE),
            "supportsBFloat16RNNWithCuDNN": _answer(ctypes.c_bool, self._major >= _AMPERE),
        }


def _of_cuda() -> dict[str, Any]:
    return {
        "init": _answer(None, None),
        "isBuilt": _answer(ctypes.c_bool, True),
        "hasPrimaryContext": _answer(ctypes.c_bool, True),
        "hasCUDA": _answer(ctypes.c_bool, True),
        "current_device": _answer(ctypes.c_int8, 0),
        "getNumGPUs": _answer(ctypes.c_int, 1),
    }


def _of_cudnn() -> dict[str, Any]:
    """Return the answers about cuDNN that a torch built with CUDA gives."""
    return {
        "hasCuDNN": _answer(ctypes.c_bool, True),
        "hasCuBLASLt": _answer(ctypes.c_bool, True),
        "compiledWithCuDNN": _answer(ctypes.c_bool, True),
        "supportsDilatedConvolutionWithCuDNN": _answer(ctypes.c_bool, True),
        "versionCuDNN": _answer(ctypes.c_long, _CUDNN),
        "versionRuntimeCuDNN": _answer(ctypes.c_long, _CUDNN),
        "batchnormMinEpsilonCuDNN": _answer(ctypes.c_double, _EPSILON),
    }


def _answer(kind: Any, value: Any) -> Any:
    """Make a C function that returns `value` for any object."""
    return ctypes.CFUNCTYPE(kind, ctypes.c_void_p)(lambda _hooks: value)


def _start_engine() -> None:
    """Run a backward before the GPU is presented: autograd's engine counts the devices once, with a thread for each.

    With a thread for the GPU, torch would refuse a later backward in a fork of the program (`in_bad_autograd_fork`,
    engine.cpp).
    """
    import torch

    with torch.utils._python_dispatch._disable_current_modes(), torch.enable_grad():
        torch.zeros((), device="cpu", requires_grad=True).clone().backward()


@contextmanager
def named_accelerator(current: Callable[[], int], count: int) -> Iterator[None]:
    """Let C++ code take CUDA for the accelerator of this machine, in the block.

    It has no context, so nothing runs there; pinned memory comes from the allocator of the CPU.

    Raises:
        UnknownTorchError: torch's C++ side has an unexpected layout.
    """
    native = Native()
    _start_engine()
    answers = {
        "init": _answer(None, None),
        "isBuilt": _answer(ctypes.c_bool, True),
        "hasCUDA": _answer(ctypes.c_bool, True),
        "getNumGPUs": _answer(ctypes.c_int, count),
        "current_device": ctypes.CFUNCTYPE(ctypes.c_int8, ctypes.c_void_p)(lambda _hooks: current()),
        "getPinnedMemoryAllocator": _answer(ctypes.c_void_p, native.allocator()),
    }
    with native.answering(answers), native.guarding():
        yield


class UnknownTorchError(Exception):
    """Torch's C++ side has an unexpected layout; the message says what is missing."""


def word_at(address: int) -> ctypes.c_void_p:
    """Return the word at an address, for reading and writing."""
    return ctypes.c_void_p.from_address(address)


class _Symbol(ctypes.Structure):
    """`Dl_info` of dladdr(3): the symbol that contains an address."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


def symbol_covers(start: int, words: int) -> None:
    """Check that the symbol at `start` has as many words as the headers declare.

    Raises:
        UnknownTorchError: the symbol has fewer words, or, on Linux, more.
    """
    last, beyond = (_symbol_at(start + word * _WORD) == start for word in (words - 1, words))
    # Only Linux's dladdr checks a symbol's size; elsewhere, memory after a symbol may appear to belong to it.
    if not last or (beyond and sys.platform == "linux"):
        msg = "torch's headers do not describe its library"
        raise UnknownTorchError(msg)


def _symbol_at(address: int) -> int | None:
    symbol = _Symbol()
    found = ctypes.CDLL(None).dladdr(ctypes.c_void_p(address), ctypes.byref(symbol))
    return symbol.address if found else None

"""Call a kernel so that what it does wrong shows, also where its result is right by chance.

`ctrace kernels eject` copies this file into each package, whose tests use it: it imports nothing of ctrace.

On every device, inputs and the buffers that an operator allocates lie in larger ones filled with NaN (`guarded_call`):
a kernel that forgets a mask reads NaN, leaves NaN in its output, or overwrites it beside a tensor. All three often go
unnoticed otherwise: memory behind a tensor is mapped, and a new buffer may still hold the results of the call before.

In Triton's interpreter, which runs one program of the grid after another, each access is looked at (`watched`): it must
be inside of the launch's tensors, no program may use what another one writes, and what a GPU leaves open is not what a
kernel hopes for.
"""

import contextlib
import functools
import math
import types
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

_AROUND = 1024
"""Elements on each side of a buffer: a block of a common kernel. A multiple of what Triton assumes of pointers."""
_GUARD = {"float": float("nan"), "int": 113}
_BFLOAT16_NAN = 0x7FC0
"""NaN as the interpreter keeps it: a bfloat16 is an integer there (3.6 and 3.7, triton/runtime/interpreter.py)."""
# No number of a program: those count from 0.
_SEVERAL = -1


class WrongAccessError(Exception):
    """The kernel reads or writes what it must not."""


@dataclass
class GuardedTensor:
    """A buffer around a tensor."""

    buffer: Any
    start: int
    """The first element of the tensor."""
    length: int

    def bytes(self) -> tuple[int, int]:
        """Return the addresses of the tensor: its first byte, and the one behind it."""
        size = self.buffer.element_size()
        first = self.buffer.data_ptr() + self.start * size
        return first, first + self.length * size


@dataclass
class Guards:
    """The buffers of one call."""

    allocated: list[GuardedTensor] = field(default_factory=list)
    inputs: list[GuardedTensor] = field(default_factory=list)
    before: list[Any] = field(default_factory=list)
    """Of each input, the bytes of its buffer before the call."""

    def overwritten(self) -> str:
        """Describe the first store where the operator must not write; empty if there is none."""
        for number, (each, before) in enumerate(zip(self.inputs, self.before, strict=True)):
            changed = (_bytes(each.buffer) != before).nonzero()
            if changed.numel():
                at = int(changed[0]) // each.buffer.element_size() - each.start
                return f"the kernel writes to input {number + 1}, {_where(at, each.length)}"
        for number, each in enumerate(self.allocated):
            kept = _is_guard(each.buffer)
            kept[each.start : each.start + each.length] = True
            if not bool(kept.all()):
                at = int((~kept).nonzero()[0]) - each.start
                side = "before" if at < 0 else "behind"
                return f"the kernel writes {side} buffer {number + 1} that it allocates, {_where(at, each.length)}"
        return ""

    def of(self, storage: int) -> GuardedTensor | None:
        """Return the buffer whose memory begins at an address."""
        return next((each for each in (*self.inputs, *self.allocated) if each.buffer.data_ptr() == storage), None)


_CURRENT: ContextVar[Guards | None] = ContextVar("guards", default=None)


def _where(at: int, length: int) -> str:
    if at < 0:
        return f"at {-at} before its start"
    if at < length:
        return f"at element {at} of its memory"
    return f"at {at - length + 1} past its end"


def guarded_call(function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, str]:
    """Call a function; return its result, and a description of an access where it must not read or write.

    Raises:
        Exception: whatever the function raises.
    """
    import torch

    guards = Guards()
    placed = [surrounded(each, guards.inputs) if isinstance(each, torch.Tensor) else each for each in args]
    guards.before = [_bytes(each.buffer).clone() for each in guards.inputs]
    token = _CURRENT.set(guards)
    try:
        with allocating(guards):
            found = function(*placed, **kwargs)
    except Exception as error:
        # Triton's interpreter raises its own error, and what the check raised is among its causes.
        wrong = wrong_access(error)
        if not wrong:
            raise
        return None, wrong
    finally:
        _CURRENT.reset(token)
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return found, guards.overwritten()


def wrong_access(error: BaseException | None) -> str:
    """Return what a kernel did wrong, as the interpreter's error or one of its causes says; empty for other errors."""
    while error is not None:
        if isinstance(error, WrongAccessError):
            return str(error)
        error = error.__cause__
    return ""


def surrounded(tensor: Any, found: list[GuardedTensor]) -> Any:
    """Copy a tensor, with its strides, into a larger buffer of other values, which is added to `found`."""
    import torch

    if not tensor.numel() or tensor.layout is not torch.strided:
        return tensor
    length = _extent(tensor.shape, tensor.stride())
    guarded = GuardedTensor(_buffer(length + 2 * _AROUND, tensor.dtype, tensor.device), _AROUND, length)
    found.append(guarded)
    return _placed(tensor, guarded.buffer, _AROUND)


def copied(tensor: Any) -> Any:
    """Copy a tensor with its strides, also where several of its values share memory."""
    import torch

    if not tensor.numel() or tensor.layout is not torch.strided:
        return tensor.detach().clone()
    length = _extent(tensor.shape, tensor.stride())
    return _placed(tensor, torch.empty(length, dtype=tensor.dtype, device=tensor.device), 0)


def _bytes(tensor: Any) -> Any:
    """Return all of the memory that a tensor is in."""
    import torch

    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())


def _placed(tensor: Any, buffer: Any, start: int) -> Any:
    """Copy the memory behind a tensor into a buffer, and return the tensor there."""
    plain = tensor.detach()
    length = _extent(plain.shape, plain.stride())
    buffer[start : start + length].copy_(plain.as_strided((length,), (1,), plain.storage_offset()))
    return buffer.as_strided(plain.shape, plain.stride(), start)


def _extent(shape: Sequence[int], stride: Sequence[int]) -> int:
    if math.prod(shape):
        return 1 + sum((size - 1) * step for size, step in zip(shape, stride, strict=True))
    return 0


def _buffer(length: int, dtype: Any, device: Any) -> Any:
    import torch

    buffer = torch.empty(length, dtype=dtype, device=device)
    if _has_value(dtype):
        return buffer.fill_(_GUARD["float" if dtype.is_floating_point else "int"])
    _bytes(buffer).fill_(_GUARD["int"])  # of a bool, 113 is no value that a kernel writes
    return buffer


def _has_value(dtype: Any) -> bool:
    import torch

    return not (dtype is torch.bool or dtype.is_complex or "float8" in str(dtype) or "float4" in str(dtype))


def _is_guard(buffer: Any) -> Any:
    """Return for each element of a buffer whether it has the value around tensors."""
    if not _has_value(buffer.dtype):
        return (_bytes(buffer).view(-1, buffer.element_size()) == _GUARD["int"]).all(1)
    if buffer.is_floating_point():
        return buffer.isnan()
    return buffer == _GUARD["int"]


@contextlib.contextmanager
def allocating(guards: Guards) -> Iterator[None]:
    """Fill what is allocated in the block, and put guard values on both sides of it."""
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
            if func not in empties or not made.numel():
                return made
            length = _extent(made.shape, made.stride())
            guarded = GuardedTensor(_buffer(length + 2 * _AROUND, made.dtype, made.device), _AROUND, length)
            guards.allocated.append(guarded)
            return guarded.buffer.as_strided(made.shape, made.stride(), _AROUND)

    with Allocating():
        yield


def layout_of(tensor: Any) -> tuple[str, str, str]:
    """Return what code that uses a tensor relies on: dtype, sizes, and the strides of dimensions that have any."""
    strides = [step for size, step in zip(tensor.shape, tensor.stride(), strict=True) if size > 1]
    dtype = str(tensor.dtype).removeprefix("torch.")
    return dtype, f"of sizes {list(tensor.shape)}", f"and strides {strides}" if tensor.numel() else ""


Launch = Callable[[Any, Any, tuple[Any, ...], Any], None]
"""Launches a kernel: takes the function, the grid, the arguments and a `triton.Config`, or None."""


def configurations(kernels: Any) -> int:
    """Return how many configurations to try: those of the kernel that has the most."""
    if isinstance(kernels, tuple):
        listed = kernels
    else:
        listed = (kernels,)
    return max(len(getattr(each, "configs", None) or (None,)) for each in listed)


def with_configuration(kernels: Any, number: int, launch: Launch) -> Any:
    """Return what `run_kernel` takes, so that each kernel runs with one of its configurations."""
    if isinstance(kernels, tuple):
        return tuple(with_configuration(each, number, launch) for each in kernels)
    if isinstance(kernels, types.FunctionType):
        return kernels
    return _Fixed(kernels, number, launch)


class _Fixed:
    def __init__(self, kernel: Any, number: int, launch: Launch) -> None:
        configs = getattr(kernel, "configs", None)
        if configs:
            self._function = kernel.fn
        else:
            self._function = kernel
        self._config = configs[number % len(configs)] if configs else None
        self._launch = launch

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return lambda *args: self._launch(self._function, grid, args, self._config)


def launched(function: Any, grid: Any, args: tuple[Any, ...], config: Any) -> None:
    """Launch a kernel on the GPU, or in the interpreter where TRITON_INTERPRET=1."""
    import triton

    if triton.knobs.runtime.interpret:
        with watched(args):
            function[grid](*args, **({} if config is None else config.kwargs))
    else:
        function[grid](*args, **({} if config is None else config.all_kwargs()))


@contextlib.contextmanager
def watched(args: Sequence[Any]) -> Iterator[None]:
    """Look at each access of a launch in the interpreter, in the block.

    A masked load without `other` gives NaN, and integers other than zero: on a GPU it may give anything, the
    interpreter's zeros hide it. `tl.maximum` and `tl.minimum` drop NaN as on a GPU, unless asked to propagate it.

    Raises:
        WrongAccessError: an access is outside of the launch's tensors, or depends on the order of programs.
    """
    import numpy
    from triton.runtime.interpreter import interpreter_builder as builder

    memory = _Memory(args)
    # The functions are set on the one builder of the interpreter, over those of its class.
    before = dict(vars(builder))
    try:
        builder.set_grid_idx = _counting(builder.set_grid_idx, memory)
        builder.create_masked_load = _reading(builder.create_masked_load, memory)
        builder.create_masked_store = _writing(builder.create_masked_store, memory)
        builder.create_atomic_rmw = _atomic(builder.create_atomic_rmw, memory, 1, 3)
        builder.create_atomic_cas = _atomic(builder.create_atomic_cas, memory, 0, None)
        builder.create_assert = _asserting
        # The interpreter's numpy.maximum passes a NaN on; the GPU's instruction returns the other operand.
        builder.create_maxnumf = lambda one, other: builder.binary_op(one, other, numpy.fmax)
        builder.create_minnumf = lambda one, other: builder.binary_op(one, other, numpy.fmin)
        with numpy.errstate(all="ignore"):
            yield
    finally:
        vars(builder).clear()
        vars(builder).update(before)


def _asserting(condition: Any, message: Any) -> None:
    if not condition:
        raise WrongAccessError(f"an assertion of the kernel fails: {message}")


def _counting(original: Any, memory: "_Memory") -> Any:
    @functools.wraps(original)
    def set_grid_idx(*index: int) -> None:
        memory.program += 1
        original(*index)

    return set_grid_idx


def _reading(original: Any, memory: "_Memory") -> Any:
    @functools.wraps(original)
    def load(pointers: Any, mask: Any, other: Any, *rest: Any, **named: Any) -> Any:
        memory.read(pointers.data[mask.data])
        if other is None:
            filled = _filled(pointers)
        else:
            filled = other
        return original(pointers, mask, filled, *rest, **named)

    return load


def _filled(pointers: Any) -> Any:
    import numpy
    from triton.runtime.interpreter import TensorHandle, _get_np_dtype

    kind = pointers.get_element_ty()
    dtype = numpy.dtype(_get_np_dtype(kind))
    value: float = _GUARD["int"]
    if dtype.kind == "f":
        value = float("nan")
    elif kind.is_bf16():  # the interpreter keeps bfloat16 as integers
        value = _BFLOAT16_NAN
    return TensorHandle(numpy.full_like(pointers.data, value, dtype=dtype), kind)


def _writing(original: Any, memory: "_Memory") -> Any:
    @functools.wraps(original)
    def store(pointers: Any, value: Any, mask: Any, *rest: Any, **named: Any) -> Any:
        from triton.runtime.interpreter import _interpreter

        places = memory.places(pointers.data[mask.data], "writes")
        # Read before the store: what was there tells whether the store changes anything.
        now = _interpreter.load(pointers.data, mask.data, value.data, value.data.dtype)
        memory.write(places, now[mask.data], value.data[mask.data])
        return original(pointers, value, mask, *rest, **named)

    return store


def _atomic(original: Any, memory: "_Memory", pointers: int, mask: int | None) -> Any:
    """Look at an atomic operation, whose arguments at these indices are pointers and mask."""

    @functools.wraps(original)
    def atomic(*args: Any) -> Any:
        addresses = args[pointers].data
        memory.places(addresses if mask is None else addresses[args[mask].data], "writes")
        # A kernel may order its programs by a counter or a lock, so from here on their order proves nothing.
        memory.is_ordered = True
        return original(*args)

    return atomic


class _Memory:
    """The tensors of one launch in memory, and which program read and wrote each of their elements."""

    def __init__(self, args: Sequence[Any]) -> None:
        import numpy

        guards = _CURRENT.get()
        found: dict[int, tuple[int, int, int, int]] = {}
        tensors = [(at, each) for at, each in enumerate(args) if hasattr(each, "untyped_storage")]
        for at, each in tensors:
            storage = each.untyped_storage()
            guarded = None
            if guards is not None:
                guarded = guards.of(storage.data_ptr())
            first, end = (
                (storage.data_ptr(), storage.data_ptr() + storage.nbytes()) if guarded is None else guarded.bytes()
            )
            if end > first:
                # Two views of a storage are one range, and the first argument is the one that a message names.
                found.setdefault(first, (first, end, each.element_size(), at + 1))
        ranges = sorted(found.values())
        self.program = 0
        self.is_ordered = False
        """Whether programs used an atomic operation, with which they may wait for each other."""
        self._starts, self._ends, self._sizes, self._names = (
            numpy.array(each, dtype=numpy.int64) for each in (zip(*ranges, strict=True) if ranges else ([],) * 4)
        )
        lengths = (self._ends - self._starts) // self._sizes
        self._offsets = numpy.concatenate([[0], lengths.cumsum()]).astype(numpy.int64)
        self._readers, self._writers = (numpy.zeros(int(self._offsets[-1]), numpy.int32) for _ in range(2))

    def places(self, pointers: Any, does: str) -> Any:
        """Return the number of the element at each address.

        Raises:
            WrongAccessError: an address is outside of the tensors.
        """
        import numpy

        addresses = numpy.asarray(pointers).reshape(-1).astype(numpy.int64)
        if not len(self._starts):
            raise WrongAccessError(f"the kernel {does} memory, and its launch has no tensor")
        at = numpy.clip(numpy.searchsorted(self._starts, addresses, "right") - 1, 0, None)
        outside = (addresses < self._starts[at]) | (addresses + self._sizes[at] > self._ends[at])
        if outside.any():
            raise WrongAccessError(self._outside(int(addresses[outside][0]), does))
        return self._offsets[at] + (addresses - self._starts[at]) // self._sizes[at]

    def _outside(self, address: int, does: str) -> str:
        """Describe an address by the nearest tensor."""
        import numpy

        distance = numpy.where(address < self._starts, self._starts - address, address - self._ends)
        at = int(distance.argmin())
        number = (address - int(self._starts[at])) // int(self._sizes[at])
        length = int(self._ends[at] - self._starts[at]) // int(self._sizes[at])
        return f"the kernel {does} outside of argument {int(self._names[at])} of its launch, {_where(number, length)}"

    def read(self, pointers: Any) -> None:
        """Note what the current program reads.

        Raises:
            WrongAccessError: it is outside of the tensors, or another program wrote it.
        """
        places = self.places(pointers, "reads")
        others = (self._writers[places] != 0) & (self._writers[places] != self.program)
        if others.any() and not self.is_ordered:
            raise WrongAccessError("a program of the kernel reads what another one writes, in no certain order")
        self._readers[places] = _noted(self._readers[places], self.program)

    def write(self, places: Any, now: Any, values: Any) -> None:
        """Note what the current program writes: the numbers of the elements, what they hold now, and the new values.

        Raises:
            WrongAccessError: the result depends on the order of stores.
        """
        import numpy

        values = numpy.asarray(values).reshape(-1)
        # Equal places come to stand beside each other, so one comparison finds all that are written twice.
        order = numpy.argsort(places, kind="stable")
        ordered = values[order]
        twice = places[order][1:] == places[order][:-1]
        if (twice & ~_same(ordered[1:], ordered[:-1])).any():
            raise WrongAccessError("the kernel writes two values to one element, in no certain order")
        # Programs that write what is there already cannot be distinguished by their order.
        changed = ~_same(numpy.asarray(now).reshape(-1), values)
        for users, verb in () if self.is_ordered else ((self._writers, "writes"), (self._readers, "reads")):
            if (changed & (users[places] != 0) & (users[places] != self.program)).any():
                raise WrongAccessError(f"a program of the kernel writes what another one {verb}, in no certain order")
        self._writers[places] = _noted(self._writers[places], self.program)


def _noted(known: Any, program: int) -> Any:
    """Return the users of elements after a program used them, too."""
    import numpy

    return numpy.where((known == 0) | (known == program), program, _SEVERAL)


def _same(one: Any, other: Any) -> Any:
    return (one == other) | ((one != one) & (other != other))  # NaN differs from itself

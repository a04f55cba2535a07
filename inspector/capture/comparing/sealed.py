"""Read and restore state that no container shows: of random generators, arrays, iterators, open files and caches.

Of an iterator one can only see that it has moved. An eager call that moved it leaves the program in another state, so
the compiled call after it cannot be compared with it.
"""

import array
import contextlib
import copy
import functools
import gc
import io
import operator
import random
import sys
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from types import BuiltinMethodType, GeneratorType, MethodType, ModuleType
from typing import Any, TypeVar

from msgspec import Struct

from ctrace.inspector.capture.isolation.random_states import repr_of_state

_LARGEST = 1 << 20
"""Bytes of an array or a file in memory that are copied at most: a larger one is data, whose changes are not seen."""
_UNSET = object()
_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_WRAPPER = type("".__len__)
"""A bound method of a builtin, such as `itertools.count().__next__`."""
CACHE = type(functools.lru_cache(lambda: None))


T = TypeVar("T")


class _UnreadableError(Exception):
    """The state cannot be read now, or is too large."""


class _Kind(Struct, frozen=True):
    """How to read the state of a type, and how to restore it."""

    shown: Callable[[Any], Any]
    """Returns something that is equal as long as the state is the same."""
    saved: Callable[[Any], Any] = lambda value: None
    """Returns what `put` needs."""
    put: Callable[[Any, Any], Any] | None = None
    """Restores the state; None: nothing can."""
    draws: bool = False
    """Whether a change of state means that random numbers were drawn."""
    remembers: bool = False
    """Whether the state is only what was computed earlier: another state should give the same results."""


class Sealed(Struct, frozen=True):
    """An object with such state: where it is, and the state that it had."""

    path: str
    value: Any
    kind: _Kind
    shown: Any
    saved: Any

    @property
    def is_same_anywhere(self) -> bool:
        """Whether equal states look the same in another process, too: they hold no addresses, and are no cache."""
        if self.kind.remembers or isinstance(self.value, GeneratorType | ContextVar):
            return False
        return self.kind.shown is not _iterator or isinstance(self.shown, int | str)

    def changed(self) -> bool:
        """Whether the state is another one now."""
        try:
            return bool(self.kind.shown(self.value) != self.shown)
        except _UnreadableError:  # it could be read before, as a file that was closed since
            return True

    def restore(self) -> bool:
        """Restore the state if it changed; return whether it is as it was."""
        if not self.changed():
            return True
        if self.kind.put is None:
            return False
        try:
            self.kind.put(self.value, self.saved)
        except Exception:  # the program may have closed a file, or made an array read-only
            return False
        # Asked again, as a type may take back only a part of its state.
        return not self.changed()


def sealed(path: str, value: Any) -> Sealed | None:
    """Read an object's hidden state; return None if it has none, or none that can be read."""
    kind = _kind(type(value))
    if kind is None:
        return None
    try:
        # What is compared may be less than what is put back: a text of a generator's state, and the state itself.
        return Sealed(path, value, kind, kind.shown(value), kind.saved(value))
    except _UnreadableError:
        return None


def inside(value: Any) -> Iterator[Any]:
    """Yield what an object refers to that has neither items nor attributes of its own."""
    if isinstance(value, GeneratorType):
        if value.gi_frame is not None:  # None: it is at its end
            # A suspended generator refers to what its variables hold, and goes on with that.
            yield from value.gi_frame.f_locals.values()
    # Of an iterator written in C, only the collector knows what it refers to.
    elif _is_iterator(type(value)):
        # Its iterators only: the list that one goes through is data.
        yield from (each for each in gc.get_referents(value) if hasattr(type(each), "__next__"))
    else:
        yield from (of(value) for of in _references(type(value)))


_REFERENCES: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    (MethodType, lambda value: value.__self__),
    (MethodType | staticmethod | classmethod, lambda value: value.__func__),
    (property, lambda value: value.fget),
    (weakref.ref, lambda value: value()),
    (functools.partial, lambda value: value.func),
    (functools.partial, lambda value: value.args),
    (functools.partial, lambda value: value.keywords),
    (CACHE, lambda value: value.__wrapped__),
    # A function of C has its module as `__self__`, which is no state of a call.
    (BuiltinMethodType | _WRAPPER, lambda value: None if isinstance(value.__self__, ModuleType) else value.__self__),
    (memoryview, lambda value: value.obj),
    (ContextVar, lambda value: value.get(None)),
)


def per_class(function: Callable[[type], T]) -> Callable[[type], T]:
    """Remember a function's result for each class, without keeping classes alive that the program drops."""
    known: weakref.WeakKeyDictionary[type, T] = weakref.WeakKeyDictionary()

    @functools.wraps(function)
    def remembered(cls: type) -> T:
        try:
            # Asked for each object of a checkpoint, and a lookup is much faster than the search.
            return known[cls]
        except KeyError:
            found = known[cls] = function(cls)
            return found

    return remembered


@per_class
def _references(cls: type) -> tuple[Callable[[Any], Any], ...]:
    """Return what reads the references of a value of this class: most classes have none."""
    return tuple(of for kinds, of in _REFERENCES if issubclass(cls, kinds))


@per_class
def _kind(cls: type) -> _Kind | None:
    # The nearest class that is known: a subclass of the program has its base's state.
    for base in cls.__mro__:
        if base in _KNOWN:
            return _KNOWN[base]
        if (base.__module__, base.__name__) in _NAMED:
            return _NAMED[base.__module__, base.__name__]
    if _is_iterator(cls):
        return _Kind(_iterator)
    return None


def _is_iterator(cls: type) -> bool:
    """Whether a class is an iterator written in C; the attributes of one in Python show its state."""
    return cls.__module__ in ("builtins", "itertools", "collections") and hasattr(cls, "__next__")


def _iterator(value: Any) -> Any:
    """Show where an iterator is; its iterators in turn are read on their own.

    Raises:
        _UnreadableError: no function tells (`itertools` from Python 3.14 on, except for `count` and `repeat`).
    """
    if hasattr(type(value), "__length_hint__"):
        return operator.length_hint(value)
    if type(value).__name__ in ("count", "repeat"):
        return repr(value)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of `__reduce__` in itertools, Python 3.12 and 3.13
            return _summary(value.__reduce__())
    except TypeError:
        raise _UnreadableError from None


def _summary(value: Any, deep: int = 4) -> Any:
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, tuple) and deep:
        return tuple(_summary(each, deep - 1) for each in value)
    if isinstance(value, list):  # a list that `cycle` has saved grows with each element; the elements stay
        return len(value)
    if hasattr(type(value), "__length_hint__"):
        return operator.length_hint(value)
    # Of any other value, only which one it is can be compared; its own content is read elsewhere.
    return id(value)


def _generator(value: Any) -> Any:
    frame = value.gi_frame
    if frame is None:
        return None
    names = sorted(frame.f_locals.items())
    # The place in its code, and its variables: the same line may be reached in each turn of a loop.
    return frame.f_lasti, [(name, each if isinstance(each, _PLAIN) else id(each)) for name, each in names]


def _state_of_random(value: Any) -> Any:
    try:
        return value.getstate()
    except NotImplementedError:  # a SystemRandom
        raise _UnreadableError from None


def _numpys(value: Any) -> Any:
    """Return the state of a generator of NumPy, of either kind, or of the source of bits that it uses."""
    if hasattr(value, "get_state"):
        # The same form for every source of bits: by default, one of them gets a tuple.
        return value.get_state(legacy=False)
    return getattr(value, "bit_generator", value).state


def _shown_of_numpy(value: Any) -> str:
    return repr_of_state(_numpys(value))


def _put_numpy(value: Any, state: Any) -> None:
    if hasattr(value, "set_state"):
        value.set_state(state)
    else:
        getattr(value, "bit_generator", value).state = state


def _array(value: Any) -> Any:
    if value.dtype.hasobject or value.nbytes > _LARGEST:  # its bytes would be addresses
        raise _UnreadableError
    return value.tobytes()


def _put_array(value: Any, state: bytes) -> None:
    # In place, since the program refers to the array itself.
    value[...] = sys.modules["numpy"].frombuffer(state, dtype=value.dtype).reshape(value.shape)


def _bytes(value: Any) -> bytes:
    if len(memoryview(value)) > _LARGEST:
        raise _UnreadableError
    return bytes(value)


def _put_bytes(value: Any, state: bytes) -> None:
    value[:] = type(value)(state) if isinstance(value, bytearray) else array.array(value.typecode, state)


def _put_memory(value: Any, state: bytes) -> None:
    memoryview(value).cast("B")[:] = state


def _in_memory(value: Any) -> Any:
    if value.closed:
        return None
    content = value.getvalue()
    if len(content) > _LARGEST:
        raise _UnreadableError
    return content, value.tell()


def _put_in_memory(value: Any, state: Any) -> None:
    content, position = state
    value.seek(0)
    # What the call wrote may be longer than what was there.
    value.truncate()
    value.write(content)
    value.seek(position)


def _file(value: Any) -> Any:
    """Return the position of a file that the program reads."""
    if value.closed:
        return None
    with contextlib.suppress(OSError, ValueError):  # a text file has no position while it is iterated
        if value.readable() and value.seekable():
            return value.tell()
    raise _UnreadableError


def _put_file(value: Any, position: int) -> None:
    """Move back in a file that is only read; what was written stays.

    Raises:
        OSError: the file can be written.
    """
    if value.writable():
        raise OSError
    value.seek(position)


def _remembered(value: Any) -> Any:
    known = value.cache_info()
    # Not the hits: a call that finds everything in the cache leaves it as it was.
    return known.misses, known.currsize


def _effective(value: Any) -> Any:
    """Return what a context variable returns now; one that is not set returns its default, if it has one."""
    try:
        return value.get()
    except LookupError:
        return _UNSET


def _of_context(value: Any) -> Any:
    found = _effective(value)
    if isinstance(found, _PLAIN):
        return found
    return id(found)


def _put_context(value: Any, state: Any) -> None:
    """Set a context variable again.

    Raises:
        LookupError: it was not set, which nothing restores.
    """
    if state is _UNSET:
        raise LookupError
    value.set(state)


def _torch_bytes(value: Any) -> bytes:
    return bytes(value.get_state().numpy())


_NUMPY = _Kind(_shown_of_numpy, lambda value: copy.deepcopy(_numpys(value)), _put_numpy, draws=True)
_KNOWN: dict[type, _Kind] = {
    random.Random: _Kind(_state_of_random, _state_of_random, lambda value, state: value.setstate(state), draws=True),
    bytearray: _Kind(_bytes, _bytes, _put_bytes),
    array.array: _Kind(_bytes, _bytes, _put_bytes),
    GeneratorType: _Kind(_generator),
    io.StringIO: _Kind(_in_memory, _in_memory, _put_in_memory),
    io.BytesIO: _Kind(_in_memory, _in_memory, _put_in_memory),
    CACHE: _Kind(_remembered, remembers=True),
    ContextVar: _Kind(_of_context, _effective, _put_context),
}
_NAMED: dict[tuple[str, str], _Kind] = {
    ("_io", "_IOBase"): _Kind(_file, _file, _put_file),
    ("numpy", "ndarray"): _Kind(_array, _array, _put_array),
    ("numpy.random._generator", "Generator"): _NUMPY,
    ("numpy.random.mtrand", "RandomState"): _NUMPY,
    ("numpy.random.bit_generator", "BitGenerator"): _NUMPY,
    ("_queue", "SimpleQueue"): _Kind(lambda value: value.qsize()),
    ("_ctypes", "_SimpleCData"): _Kind(bytes, bytes, _put_memory),
    ("_ctypes", "Array"): _Kind(bytes, bytes, _put_memory),
    ("_ctypes", "Structure"): _Kind(bytes, bytes, _put_memory),
    ("torch._C", "Generator"): _Kind(
        _torch_bytes, lambda value: value.get_state(), lambda value, state: value.set_state(state), draws=True
    ),
}
"""Types that the program may not have imported, or that Python does not name, by module and name."""

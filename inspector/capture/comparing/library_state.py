"""See whether a call changed process-wide state of libraries: modules that it imported, and what modules hold.

Such state is filled by the first call in a process, and code that Dynamo traces reads it: einops 0.8 looks up in a
dict which framework a tensor belongs to, Pyro 1.9 keeps parameters in an object of a module, and both are filled on
the first call. So an eager call before the first compiled one would change what Dynamo captures.
"""

import sys
from collections import OrderedDict, deque
from collections.abc import Callable
from functools import partial
from types import FunctionType, MappingProxyType, ModuleType
from typing import Any, NamedTuple

from ctrace.inspector.capture.comparing.containers import is_mark
from ctrace.inspector.capture.core.environment import library_prefixes
from ctrace.inspector.facts.findings import Owner
from ctrace.inspector.source.owners import owner_of

_IMPORTED_BY_TORCH = frozenset(("torch", "triton", "numpy", "sympy", "mpmath", "networkx", "jinja2", "packaging"))
"""Packages that torch imports itself: Dynamo knows NumPy's functions by name, and traces into none of the others."""
_OF_TORCH_WITH_STATE = "torch.distributions"
"""Dynamo traces into it as into a library, and `kl_divergence` keeps what it found (distributions/kl.py, 2.13)."""
_MOST_ITEMS = 10_000
"""A container with more items is data."""
_MOST_OBJECTS = 200_000
"""Objects that are compared; more would take longer than the call itself."""
_DEPTH = 4
"""How many steps lead from a module to what is compared: an object, its attribute, a dict, an object in it."""
_CONTAINERS = (dict, list, set, deque)
_UNSEARCHED = (ModuleType, FunctionType)
"""Submodules, which imports set, and functions, which hold nothing that calls change."""


class _Known(NamedTuple):
    """An object of a library, kept alive so that no other object gets its id."""

    package: str
    value: Any
    content: list[Any]


class LibraryState:
    """What the modules of installed packages hold now: containers, attributes of classes and of objects."""

    def __init__(self) -> None:
        self._is_library: dict[str, bool] = {}
        self._prefixes = library_prefixes()
        self._readers: dict[type, Callable[[Any], list[Any] | None] | None] = {}
        self._modules = self._loaded()
        self._known: dict[int, _Known] = {}
        """Objects by id."""
        # Breadth first, so that the limit cuts off what is deepest.
        waiting = deque((name.partition(".")[0], module, 0) for name, module in self._modules.items())
        while waiting and len(self._known) < _MOST_OBJECTS:
            package, value, depth = waiting.popleft()
            if id(value) in self._known or (content := self._content(value)) is None:
                continue
            self._known[id(value)] = _Known(package, value, content)
            if depth < _DEPTH:
                waiting.extend((package, each, depth + 1) for each in content)

    def changes(self) -> tuple[str, ...]:
        """Return the packages whose modules have changed, or that have new modules."""
        found = {name.partition(".")[0] for name in self._loaded() if name not in self._modules}
        for package, value, before in self._known.values():
            # One change of a package is enough: only its name is asked for.
            if package not in found and _differs(before, self._content(value)):
                found.add(package)
        return tuple(sorted(found))

    def restore(self) -> tuple[str, ...]:
        """Restore what has changed, and return the packages in which something cannot be set.

        Modules that were imported stay.
        """
        failed = set()
        for package, value, before in self._known.values():
            if _differs(before, self._content(value)):
                try:
                    # In place, since other objects refer to the same container.
                    _put(value, before)
                except Exception:  # a read-only attribute, a metaclass or the hash of a key may raise anything
                    failed.add(package)
        return tuple(sorted(failed))

    def _loaded(self) -> dict[str, ModuleType]:
        """Return the loaded modules of libraries that torch does not use itself."""
        return {name: module for name, module in list(sys.modules.items()) if self._is_of_library(name)}

    def _is_of_library(self, module: str) -> bool:
        if f"{module}.".startswith(f"{_OF_TORCH_WITH_STATE}."):
            return True
        package = module.partition(".")[0]
        if package not in self._is_library:
            # Past the module's own `__getattr__`, which may import more modules.
            file = getattr(sys.modules.get(package), "__dict__", {}).get("__file__")
            is_other = package in _IMPORTED_BY_TORCH or package in sys.stdlib_module_names or package == "ctrace"
            is_library = not is_other and bool(file) and owner_of(str(file), self._prefixes) is Owner.LIBRARY
            self._is_library[package] = is_library
        return self._is_library[package]

    def _content(self, value: Any) -> list[Any] | None:
        """Return what an object of a library holds; None for one that holds nothing, or is not a library's."""
        kind = type(value)
        if kind not in self._readers:
            self._readers[kind] = self._reader(kind)
        read = self._readers[kind]
        if read is None:
            return None
        return read(value)

    def _reader(self, kind: type) -> Callable[[Any], list[Any] | None] | None:
        """Return the function that reads objects of a type; None for those that hold nothing."""
        if issubclass(kind, (*_CONTAINERS, tuple)):
            return partial(_items, next(each for each in (*_CONTAINERS, tuple) if issubclass(kind, each)))
        if issubclass(kind, ModuleType):
            # Past the module's own `__getattr__`, as in `_is_of_library`.
            return lambda module: _names(vars(module)) if self._is_of_library(str(vars(module)["__name__"])) else None
        if issubclass(kind, type):
            return lambda cls: _names(vars(cls)) if self._is_of_library(str(cls.__module__)) else None
        if self._is_of_library(str(kind.__module__)):
            return _attributes
        return None


def _attributes(value: Any) -> list[Any] | None:
    try:
        # Past the class's own lookup, which could run its code.
        attributes = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    if type(attributes) is dict:
        return _names(attributes)
    return None


def _items(base: Any, value: Any) -> list[Any] | None:
    """Return the items of a container, without the methods that a subclass overrides; of a dict, keys and values."""
    # The base's own method, as a subclass may count or load when it is asked.
    if base.__len__(value) > _MOST_ITEMS:
        return None
    if base is dict:
        return [*dict.keys(value), *dict.values(value)]
    return list(base.__iter__(value))


def _put(value: Any, content: list[Any]) -> None:
    """Set the content of an object to what it was."""
    if isinstance(value, list):
        list.__setitem__(value, slice(None), content)
    elif isinstance(value, set):
        set.clear(value)
        set.update(value, content)
    elif isinstance(value, deque):
        deque.clear(value)
        deque.extend(value, content)
    else:
        half = len(content) // 2
        before = dict(zip(content[:half], content[half:], strict=True))
        if isinstance(value, dict):
            if isinstance(value, OrderedDict):
                base: Any = OrderedDict
            else:
                base = dict
            base.clear(value)
            for key, item in before.items():
                base.__setitem__(value, key, item)
        else:
            _put_attributes(value, before)


def _put_attributes(value: Any, before: dict[str, Any]) -> None:
    names = _names(vars(value))
    half = len(names) // 2
    now = dict(zip(names[:half], names[half:], strict=True))
    put, remove = (type.__setattr__, type.__delattr__) if isinstance(value, type) else (setattr, delattr)
    # Past the `__setattr__` of a class, which may check or refuse.
    if not isinstance(value, type | ModuleType):
        put, remove = object.__setattr__, object.__delattr__
    for name in now.keys() - before.keys():
        remove(value, name)
    for name, item in before.items():
        if name not in now or now[name] is not item:
            put(value, name, item)


def _names(attributes: dict[str, Any] | MappingProxyType[str, Any]) -> list[Any]:
    """Return names and values of what code may read, without marks of Dynamo."""
    found = {
        name: value
        for name, value in dict(attributes).items()
        if not name.startswith("__") and not isinstance(value, _UNSEARCHED) and not is_mark(name)
    }
    return [*found, *found.values()]


def _differs(before: list[Any], now: list[Any] | None) -> bool:
    if now is None or len(now) != len(before):
        return True
    return any(new is not old and not _is_same_name(new, old) for new, old in zip(now, before, strict=True))


def _is_same_name(new: Any, old: Any) -> bool:
    # Equal texts stand for the same name, although two strings are two objects.
    return type(new) is type(old) is str and bool(new == old)

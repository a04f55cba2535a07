"""See whether a call changed process-wide state of libraries: modules that it imported, and what modules hold.

Such state is filled by the first call in a process, and code that Dynamo traces reads it: einops 0.8 looks up in a
dict which framework a tensor belongs to, and fills that dict on the first call. So an eager call before the first
compiled one would change what Dynamo captures.
"""

import sys
from collections import deque
from types import ModuleType
from typing import Any

from ctrace.inspector.capture.core.environment import library_prefixes
from ctrace.inspector.model.findings import Owner
from ctrace.inspector.source.owners import owner_of

_IMPORTED_BY_TORCH = frozenset(("torch", "triton", "numpy", "sympy", "mpmath", "networkx", "jinja2", "packaging"))
"""Packages that torch imports itself: Dynamo knows NumPy's functions by name, and traces into none of the others."""
_MOST_ITEMS = 10_000
"""A container with more items is data."""
_CONTAINERS = (dict, list, set, deque)


class LibraryState:
    """What the modules of installed packages hold now."""

    def __init__(self) -> None:
        self._is_library: dict[str, bool] = {}
        self._prefixes = library_prefixes()
        self._modules = self._loaded()
        self._names = {name: _names(module) for name, module in self._modules.items()}
        self._contents = {
            id(value): (value, _content(value)) for names in self._names.values() for value in _containers(names)
        }

    def changes(self) -> tuple[str, ...]:
        """Return the packages whose modules have changed, or that have new modules."""
        changed = {name for name in self._loaded() if name not in self._modules}
        for name, module in self._modules.items():
            before, now = self._names[name], _names(module)
            is_other = before.keys() != now.keys() or any(now[key] is not value for key, value in before.items())
            if is_other or any(_differs(*self._contents[id(value)]) for value in _containers(before)):
                changed.add(name)
        return tuple(sorted({name.partition(".")[0] for name in changed}))

    def _loaded(self) -> dict[str, ModuleType]:
        """Return the loaded modules of libraries that torch does not use itself."""
        return {
            name: module
            for name, module in list(sys.modules.items())
            if isinstance(module, ModuleType) and self._belongs_to_library(name.partition(".")[0])
        }

    def _belongs_to_library(self, package: str) -> bool:
        if package not in self._is_library:
            file = getattr(sys.modules.get(package), "__dict__", {}).get("__file__")
            is_other = package in _IMPORTED_BY_TORCH or package in sys.stdlib_module_names or package == "ctrace"
            is_library = not is_other and bool(file) and owner_of(str(file), self._prefixes) is Owner.LIBRARY
            self._is_library[package] = is_library
        return self._is_library[package]


def _names(module: ModuleType) -> dict[str, Any]:
    """Return a module's globals that code may read, without submodules, which imports set."""
    return {
        name: value
        for name, value in vars(module).copy().items()
        if not name.startswith("__") and not isinstance(value, ModuleType)
    }


def _containers(names: dict[str, Any]) -> list[Any]:
    return [
        value for value in names.values() if isinstance(value, _CONTAINERS) and _size(value) <= _MOST_ITEMS
    ]


def _base(value: Any) -> Any:
    """Return which of the containers a value is, without the methods that a subclass overrides."""
    return next(each for each in _CONTAINERS if isinstance(value, each))


def _size(value: Any) -> int:
    return int(_base(value).__len__(value))


def _content(value: Any) -> list[Any]:
    """Return the items of a container; those of a dict are its keys and then its values."""
    if isinstance(value, dict):
        return [*dict.keys(value), *dict.values(value)]
    return list(_base(value).__iter__(value))


def _differs(value: Any, before: list[Any]) -> bool:
    now = _content(value)
    return len(now) != len(before) or any(one is not other for one, other in zip(now, before, strict=True))

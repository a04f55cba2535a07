"""Mutable containers of a running program: how to read one, follow its items, and restore its content.

`container_of` and `slots_of` find the `Container` of an object, `children` its items. State that torch itself keeps in
the program's objects is left out (`is_mark`, `is_compilers`), since the program did not change it: while Dynamo
compiles, it marks classes and functions, and replaces methods of torch's own classes (2.11 to 2.13):
`Module.___needs_generation_tag_patch`, `Module.__init__` and `Module.__setstate__` (_dynamo/mutation_guard.py),
`_torchdynamo_disable`, `_torchdynamo_wrapper_id` and `_dynamo_marked_constant` (_dynamo/decorators.py).
"""

import os
import re
import sys
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache, lru_cache, partial
from types import CellType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.capture.comparing import sealed
from ctrace.inspector.capture.comparing.sealed import per_class
from ctrace.inspector.capture.core.callers import OURS, folder_of_torch
from ctrace.inspector.capture.core.environment import library_prefixes
from ctrace.inspector.facts.findings import Owner
from ctrace.inspector.source.owners import owner_of

_MARK = re.compile(r"___|_?(?:torch)?dynamo_")


def is_mark(name: Any) -> bool:
    """Whether only torch stores something under a name."""
    return isinstance(name, str) and _has_mark(name)


@lru_cache(maxsize=4096)
def _has_mark(name: str) -> bool:
    return _MARK.match(name) is not None


def is_compilers(value: Any) -> bool:
    """Whether a value is a function of torch's compiler, or of another private package of torch."""
    return isinstance(value, FunctionType) and value.__code__.co_filename.startswith(_private_folder())


@cache
def _private_folder() -> str:
    return os.path.join(folder_of_torch(), "_")  # noqa: PTH118 - a prefix of names, not a path


_LONG = 10_000
"""A container with more items is data and is not searched."""
_UNTOUCHED = frozenset(("__dict__", "__weakref__", "__doc__", "__abstractmethods__", "_abc_impl", "__builtins__"))
# Constants: Python builds a union that is written where it is used again for each of the thousands of values.
_LEAVES = (str, bytes, int, float, complex, bool, type(None))
_WITHOUT_ATTRIBUTES = (*_LEAVES, FunctionType, MethodType)
_OF_ITEMS = (dict, list, set, deque)
_OF_NAMES = (type, ModuleType, FunctionType)
FIXED = (tuple, frozenset)
_WITHOUT_CLASS = (type, ModuleType, *_OF_ITEMS, CellType)
"""Kinds of objects whose class is not the program's."""
_OPEN = frozenset(("types.SimpleNamespace", "_thread._local", "queue.Queue", "argparse.Namespace"))
"""Classes of Python whose attributes are the program's data."""

Content = dict[Any, Any]


class Container(Struct, frozen=True):
    """An object that maps keys to values, with its path and its kind of state."""

    path: str
    kind: str
    """`environment`, `hook`, `attribute`, `method`, `global`, `closure` or `torch_switch`."""
    content: Callable[[], Content]
    put: Callable[[Any, Any], Any]
    remove: Callable[[Any], Any]
    item: str = "[{!r}]"
    """Format of an item's key, appended to the container's path."""
    leads: bool = True
    """Whether to search the values of its items."""

    def path_of(self, key: Any) -> str:
        """Return the path of an item in torch's notation."""
        return f"{self.path}{self.item.format(key)}"

    def restore(self, content: Content) -> bool:
        """Restore an earlier content of the container; return whether it is as it was."""
        now = self.content()
        if not _differing(now, content):
            return True
        try:
            # From the end, so that the indices of a list stay valid.
            for key in [key for key in reversed(now) if key not in content]:
                self.remove(key)
            for key, value in content.items():
                if key not in now or now[key] is not value:
                    self.put(key, value)
        except Exception:  # a metaclass may forbid it
            return False
        return not _differing(self.content(), content)


def _differing(now: Content, content: Content) -> bool:
    """Whether a content is not the earlier one; a switch returns an equal value, not the same object."""
    return now.keys() != content.keys() or any(
        value is not content[key] and not _equal_constants(value, content[key]) for key, value in now.items()
    )


def _equal_constants(one: Any, other: Any) -> bool:
    return type(one) is type(other) and type(one) in (bool, int, str) and bool(one == other)


def free_standing() -> Iterator[Container]:
    """Yield the state that belongs to no object: the environment, global module hooks, switches of torch and Python."""
    from torch.nn.modules import module

    environ = os.environ
    yield Container("os.environ", "environment", _variables, environ.__setitem__, environ.__delitem__)
    for name, hooks in vars(module).items():
        if name.startswith("_global_") and isinstance(hooks, dict):
            yield _of_dict(f"torch.nn.modules.module.{name}", "hook", hooks)
    known = _switches()
    values = partial(_read, known)
    # A switch cannot be removed, so `known.get` stands where a function has to.
    yield Container("", "torch_switch", values, lambda name, value: known[name][1](value), known.get, "{}")


def _variables() -> Content:
    """Return the environment from what `os.environ` reads: our own look is no question of the program."""
    environ = os.environ
    data = vars(environ)["_data"]  # CPython's (os.py, 3.11 to 3.14), the same on Windows
    if data != _decoded[0]:
        known = {environ.decodekey(name): environ.decodevalue(value) for name, value in data.items()}
        _decoded[:] = data.copy(), known
    return _decoded[1].copy()


_decoded: list[dict[Any, Any]] = [{}, {}]
"""The environment as it was last decoded: its bytes and its texts. A proof reads it some thousand times."""


_Switch = tuple[Callable[[], Any], Callable[[Any], Any]]


def _read(known: dict[str, _Switch]) -> Content:
    return {name: read() for name, (read, _) in known.items()}


def _switches() -> dict[str, _Switch]:
    """Return the getter and setter of each global switch that a forward may depend on."""
    import torch

    cudnn = torch.backends.cudnn
    known: dict[str, _Switch] = {
        "torch.get_default_dtype()": (torch.get_default_dtype, torch.set_default_dtype),
        "torch.get_num_threads()": (torch.get_num_threads, torch.set_num_threads),
        "torch.get_float32_matmul_precision()": (
            torch.get_float32_matmul_precision,
            torch.set_float32_matmul_precision,
        ),
        "torch.are_deterministic_algorithms_enabled()": (
            torch.are_deterministic_algorithms_enabled,
            torch.use_deterministic_algorithms,
        ),
        "sys.getrecursionlimit()": (sys.getrecursionlimit, sys.setrecursionlimit),
    }
    for name in ("enabled", "benchmark"):
        known[f"torch.backends.cudnn.{name}"] = partial(getattr, cudnn, name), partial(setattr, cudnn, name)
    return known


def container_of(path: str, kind: str, value: Any) -> Container | None:
    """Return a container of a value's items or attributes, or None if it has none, too many, or only torch's own."""
    if isinstance(value, _OF_ITEMS):
        if _base(value).__len__(value) > _LONG:
            return None
        return _of_items(path, kind, value)
    if isinstance(value, CellType):
        return _of_cell(path, value)
    if isinstance(value, _OF_NAMES):
        return _of_names(value)
    attributes = _attributes(value)
    slots = slots_of(type(value))
    # Slots first: an object may have slots and a `__dict__` beside them.
    if slots:
        return _of_slots(path, kind, value, slots, attributes or {})
    if attributes is None:
        return None
    return _of_dict(path, kind, attributes, ".{}")


def _of_items(path: str, kind: str, value: Any) -> Container:
    """Return a container of the items of a dict, list, set or deque."""
    if isinstance(value, dict):
        return _of_dict(path, kind, value)
    if isinstance(value, list):
        return _of_list(path, kind, value)
    if isinstance(value, deque):
        return _of_deque(path, kind, value)
    return Container(
        path, kind, lambda: dict.fromkeys(set.__iter__(value), True), lambda key, _: value.add(key), value.discard
    )


def _of_names(value: type | ModuleType | FunctionType) -> Container | None:
    """Return a container of what a class, a module or a function has under names; its own name is its path."""
    if isinstance(value, type):
        return _of_class(value)
    if isinstance(value, ModuleType):
        return _of_module(value)
    return _of_function(value)


def _base(value: Any) -> Any:
    """Return which of dict, list, set and deque a value is, without the methods that a subclass overrides."""
    return next(each for each in _OF_ITEMS if isinstance(value, each))


def _of_dict(path: str, kind: str, value: Content, item: str = "[{!r}]", *, leads: bool = True) -> Container:
    def content() -> Content:
        # Copy first: a dict that another thread grows cannot be iterated. A user's subclass may override methods, which
        # may load modules or fail (transformers 5.23, models/auto/auto_factory.py: `_LazyAutoMapping`).
        if type(value) is dict:
            copied = dict(value)
        else:
            copied = dict(dict.items(value))
        return {key: item for key, item in copied.items() if not is_mark(key) and key not in _UNTOUCHED}

    # Call the base class's methods, as above; an OrderedDict stores its order separately.
    base: type[dict[Any, Any]] = dict
    if isinstance(value, OrderedDict):
        base = OrderedDict
    return Container(
        path, kind, content, partial(base.__setitem__, value), partial(base.__delitem__, value), item, leads
    )


def _of_list(path: str, kind: str, value: list[Any]) -> Container:
    def put(index: int, item: Any) -> None:
        # A slice, so that an index at the end appends.
        value[index : index + 1] = [item]

    return Container(path, kind, lambda: dict(enumerate(list.__iter__(value))), put, value.__delitem__)


def _of_deque(path: str, kind: str, value: deque[Any]) -> Container:
    def put(index: int, item: Any) -> None:
        if index < deque.__len__(value):
            deque.__setitem__(value, index, item)
        else:
            deque.append(value, item)

    return Container(
        path, kind, lambda: dict(enumerate(list(deque.__iter__(value)))), put, partial(deque.__delitem__, value)
    )


def _of_cell(path: str, cell: CellType) -> Container:
    def content() -> Content:
        try:
            return {"": cell.cell_contents}
        except ValueError:  # the cell is still empty
            return {}

    def put(_key: str, value: Any) -> None:
        cell.cell_contents = value

    return Container(path, "closure", content, put, lambda _: _emptied(cell), "{}")


def _emptied(cell: CellType) -> None:
    del cell.cell_contents


def _of_class(cls: type) -> Container | None:
    """Return a container of a class's attributes, or None for a class of Python, or of torch unless it is a module.

    Changes to a module class of torch are found, but its attributes are not searched further.
    """
    owner = _owner(cls.__module__)
    if owner is None or (owner is Owner.TORCH and not _is_nn_module(cls)):
        return None

    slots = slots_of(cls)

    def content() -> Content:
        # Dynamo replaces methods of `Module` while it compiles; what it put there stays.
        own = {name: item for name, item in vars(cls).items() if not is_mark(name) and name not in _UNTOUCHED}
        return {name: item for name, item in own.items() if name not in slots and not _is_patched(cls, name)}

    leads = owner is not Owner.TORCH
    put, remove = partial(type.__setattr__, cls), partial(type.__delattr__, cls)
    return Container(cls.__qualname__, "method", content, put, remove, ".{}", leads)


def _is_patched(cls: type, name: str) -> bool:
    """Whether a method is one that Dynamo replaces in a class of torch (2.11 to 2.13, _dynamo/mutation_guard.py)."""
    return name in ("__init__", "__setstate__", "__setattr__") and (
        cls.__module__.partition(".")[0] == "torch" or is_compilers(vars(cls).get(name))
    )


def slots_of(cls: type) -> dict[str, Any]:
    """Return the slots of a class of the user or a library, each with what reads and writes it."""
    # Most classes have none, and this is asked for every object.
    has_slots = any("__slots__" in vars(base) for base in cls.__mro__)
    if not has_slots or _owner(cls.__module__) in (None, Owner.TORCH):
        return {}
    members = ((name, each) for base in cls.__mro__ for name, each in vars(base).items())
    return {name: each for name, each in members if isinstance(each, MemberDescriptorType)}


def _of_slots(path: str, kind: str, value: Any, slots: dict[str, Any], attributes: Content) -> Container:
    def content() -> Content:
        found = dict(attributes)
        for name, slot in slots.items():
            with suppress(AttributeError):  # it is not set
                found[name] = slot.__get__(value, type(value))
        return {name: item for name, item in found.items() if not is_mark(name)}

    def put(name: str, item: Any) -> None:
        if name in slots:
            slots[name].__set__(value, item)
        else:
            attributes[name] = item

    def remove(name: str) -> None:
        if name in slots:
            slots[name].__delete__(value)
        else:
            del attributes[name]

    return Container(path, kind, content, put, remove, ".{}")


_DEFAULTS = ("__defaults__", "__kwdefaults__")


def _of_function(function: FunctionType) -> Container | None:
    """Return a container of a function's attributes and default values, or None for a function of Python or torch."""
    if _owner(str(function.__module__)) in (None, Owner.TORCH):
        return None
    attributes = vars(function)

    def content() -> Content:
        defaults = {name: getattr(function, name) for name in _DEFAULTS}
        # `around_function` follows what a decorator wraps, as a function of its own.
        own = {name: item for name, item in attributes.items() if not is_mark(name) and name != "__wrapped__"}
        return own | {name: item for name, item in defaults.items() if item is not None}

    def put(name: str, item: Any) -> None:
        if name in _DEFAULTS:
            setattr(function, name, item)
        else:
            attributes[name] = item

    def remove(name: str) -> None:
        if name in _DEFAULTS:
            setattr(function, name, None)
        else:
            del attributes[name]

    return Container(function.__qualname__, "attribute", content, put, remove, ".{}")


def _of_module(module: ModuleType) -> Container | None:
    """Return a container of a Python module's globals, or None for a module of Python or torch.

    Changes to a library's module are found, but its globals are not searched further.
    """
    names = vars(module)
    # A module that the program made itself has neither a file nor a loader.
    is_made = names.get("__spec__") is None and names.get("__file__") is None and names.get("__loader__") is None
    name = str(names.get("__name__"))
    owner = _owner(name)
    if owner is None and is_made and name.partition(".")[0] not in sys.stdlib_module_names:
        owner = Owner.USER
    if owner in (None, Owner.TORCH):
        return None
    made = _of_dict(name, "global", names, ".{}", leads=owner is Owner.USER)
    return replace(made, content=lambda: _own(name, made.content()))


def _own(module: str, content: Content) -> Content:
    """Drop what Python and Dynamo store in a module, such as `__file__`, `__compiled_fn_1` and `_140509236_c0`.

    Dynamo's names end in the object's id and the number of the compilation (install_global_by_id in output_graph.py,
    2.13); the part before may be empty. A module that an import has bound in its package stays there, as it stays in
    `sys.modules`: a package that imports on first use, such as NumPy, would ask for it forever.
    """

    def is_own(name: str, item: Any) -> bool:
        is_bound = isinstance(item, ModuleType) and sys.modules.get(f"{module}.{name}") is item
        return not name.startswith("__") and f"_{id(item)}_c" not in name and not is_bound

    return {name: item for name, item in content.items() if is_own(str(name), item)}


def _attributes(value: Any) -> Content | None:
    """Return the attributes of an object, or None if its class belongs to torch (modules excepted) or Python."""
    if isinstance(value, _WITHOUT_ATTRIBUTES):
        return None
    cls = type(value)
    if not _is_open(cls) and _owner(cls.__module__) in (None, Owner.TORCH):
        return None
    try:
        # Only its own lookup finds the attributes of `threading.local` in this thread.
        if isinstance(value, threading.local):
            attributes = value.__dict__
        else:
            attributes = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    if type(attributes) is dict:
        return attributes
    return None


@per_class
def _is_open(cls: type) -> bool:
    """Whether the attributes of a class's objects are the program's data, whoever wrote the class."""
    return _is_nn_module(cls) or any(f"{base.__module__}.{base.__qualname__}" in _OPEN for base in cls.__mro__)


@per_class
def _is_nn_module(cls: type) -> bool:
    """Whether a class is one of torch.nn's modules; its metaclass may run code for each attribute that is asked for."""
    return any("_call_impl" in vars(base) for base in cls.__mro__)


@cache
def _owner(module: str) -> Owner | None:
    """Return the owner of a module, or None for the standard library, a builtin module or ctrace."""
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names and top != "__main__":
        return None
    if top == "torch":
        return Owner.TORCH
    found = sys.modules.get(module)
    # Read no attribute: a module that loads others when it is asked for a name may fail to (as in transformers).
    file = None
    if isinstance(found, ModuleType):
        file = getattr(found, "__dict__", {}).get("__file__")
    if file is None:
        if top == "__main__":
            return Owner.USER
        return None
    if str(file).startswith(OURS):
        return None
    return owner_of(str(file), library_prefixes())


def children(
    container: Container | None, content: Content, path: str, kind: str, value: Any, *, known: Mapping[int, Any]
) -> Iterator[tuple[str, str, Any]]:
    """Yield the path, kind and value of everything that a value refers to; `content` is that of its container.

    Items of the container that are known, by id, are left out: most modules refer to the same functions.
    """
    if container is not None and container.leads:
        for key, item in content.items():
            # The exact type first: it decides nearly always, and faster than `isinstance`.
            if type(item) not in _LEAVES and id(item) not in known and not isinstance(item, _LEAVES):
                hooks = isinstance(key, str) and key.endswith("_hooks") and _is_nn_module(type(value))
                yield container.path_of(key), "hook" if hooks else container.kind, item
    if isinstance(value, FIXED) and len(value) <= _LONG:
        yield from ((f"{path}[{index}]", kind, item) for index, item in enumerate(value))
    elif isinstance(value, FunctionType):
        yield from around_function(value)
    elif not isinstance(value, _WITHOUT_CLASS) and container is not None:
        # Without `object`, which is the last.
        yield from ((cls.__qualname__, "method", cls) for cls in type(value).__mro__[:-1])
    else:
        yield from ((path, kind, item) for item in sealed.inside(value))


def is_bare(function: FunctionType) -> bool:
    """Whether a function has neither attributes nor default values."""
    return not (function.__dict__ or function.__defaults__ or function.__kwdefaults__)


def around_function(function: FunctionType) -> Iterator[tuple[str, str, Any]]:
    """Yield the path, kind and value of what a function refers to: its closure, its module, what it wraps."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield f"{name} of {function.__qualname__}", "closure", cell
    module = sys.modules.get(str(function.__globals__.get("__name__")))
    if module is not None and vars(module) is function.__globals__:
        yield module.__name__, "global", module
    wrapped = vars(function).get("__wrapped__")
    if wrapped is not None:
        yield function.__qualname__, "method", wrapped

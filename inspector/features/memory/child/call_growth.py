"""What equal calls leave behind, call after call (`GrowingCalls`), and what keeps each such tensor alive
(`holders_of`): a path of names from the user's modules, and the line that puts it there.
"""

import ast
import functools
import inspect
import itertools
import os
import sys
import types
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from ctrace.inspector.facts.memory_facts import CallGrowth, HeldMemory
from ctrace.inspector.features.memory.child.storage_ledger import Ledger, TrackedStorage, source_line
from ctrace.inspector.features.memory.child.tracked_calls import OperatorLines, saved_tensors

_MOST_OBJECTS = 300_000
"""The most objects to look at: a search in a large program ends."""
_MOST_DEPTH = 12
"""Steps from a name of the user's to what holds a tensor; a longer path says nothing to a reader."""
_ADDS = ("append", "add", "extend", "insert", "update", "setdefault", "appendleft", "put")


class TensorHolder(NamedTuple):
    """What keeps tensors alive."""

    text: str
    """The names, such as `model.kept`; of a graph of autograd, those of the tensor that it belongs to."""
    name: str
    """The last name, by which code refers to it."""
    by_graph: bool = False
    """Whether a graph of autograd holds it, and the path leads to a tensor with that graph."""
    container: "TensorHolder | None" = None
    """What has the object that holds it as an element: `records` of `records[3].output`."""


def holders_of(storages: set[int], namespaces: Mapping[str, Mapping[str, Any]]) -> dict[int, TensorHolder]:
    """Return what holds some storages, by their address: the shortest path from a name of a module.

    Args:
        storages: the addresses, `_cdata`.
        namespaces: names and values of the user's modules, by the name of the module.
    """
    import torch

    found: dict[int, TensorHolder] = {}
    graphs: list[tuple[Any, TensorHolder]] = []
    for value, path in _reachable(namespaces):
        if not issubclass(type(value), torch.Tensor):
            continue
        holder = _holder(path)
        # Only a leaf: reading `grad` of another tensor makes torch warn.
        for each in (value, value.grad if value.is_leaf else None):
            key = _key(each)
            if key in storages:
                found.setdefault(key, holder if each is value else TensorHolder(f"{holder.text}.grad", "grad"))
        if value.grad_fn is not None:
            graphs.append((value, holder))
    # After all names: what has a name of its own is better explained by it than by a graph.
    for value, holder in graphs:
        # Searching graphs is slow, and most tensors have a name.
        if storages <= found.keys():
            break
        for saved in saved_tensors(value):
            key = _key(saved)
            if key in storages:
                container = None if holder.container is None else holder.container._replace(by_graph=True)
                found.setdefault(key, holder._replace(by_graph=True, container=container))
    return found


def _key(tensor: Any) -> int:
    import torch

    if tensor is None or tensor.layout is not torch.strided:
        return 0
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):
        return 0


class _Step(NamedTuple):
    """One step of a path: a name, or an element of a container."""

    text: str
    name: str
    """Empty: an element."""


_Path = tuple[_Step, ...]


def _holder(path: _Path) -> TensorHolder:
    """Name the last thing on a path that has a name: a tensor in `model.kept[3]` is held by `model.kept`."""
    while len(path) > 1 and not path[-1].name:
        path = path[:-1]
    elements = [index for index, each in enumerate(path) if each.text.startswith("[")]
    container = None
    if elements:
        container = _holder(path[: elements[-1]])
    return TensorHolder("".join(each.text for each in path), path[-1].name, container=container)


def _reachable(namespaces: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[Any, _Path]]:
    """Yield objects with the shortest path to each."""
    waiting: deque[tuple[Any, _Path]] = deque()
    seen: set[int] = {id(each) for each in namespaces.values()}
    for names in namespaces.values():
        for name, value in tuple(names.items()):
            # Other modules have their own entry if they are the user's.
            if not name.startswith("__") and not issubclass(type(value), types.ModuleType):
                waiting.append((value, (_Step(name, name),)))
    while waiting and len(seen) < _MOST_OBJECTS:
        value, path = waiting.popleft()
        # The first path to an object is the shortest, as the search goes breadth first.
        if id(value) in seen or issubclass(type(value), (str, bytes, int, float, bool, type(None))):
            continue
        seen.add(id(value))
        yield value, path
        if len(path) < _MOST_DEPTH:
            waiting.extend((inner, (*path, step)) for inner, step in _inside(value))


def _inside(value: Any) -> Iterator[tuple[Any, _Step]]:
    """Yield what an object refers to."""
    # By type: isinstance() asks an object for its class, which runs its code.
    kind = type(value)
    if issubclass(kind, dict):
        yield from ((inner, _Step(f"[{_key_text(key)}]", "")) for key, inner in tuple(value.items()))
    elif issubclass(kind, (list, tuple, set, frozenset, deque)):
        # A copy, because another thread may change the container meanwhile.
        yield from ((inner, _Step(f"[{index}]", "")) for index, inner in enumerate(tuple(value)))
    elif kind is types.FunctionType:
        yield from _of_function(value)
    elif kind is types.MethodType:
        yield from ((inner, _Step("", "")) for inner in (value.__self__, value.__func__))
    elif issubclass(kind, functools.partial):
        yield from ((inner, _Step("", "")) for inner in (value.func, value.args, value.keywords))
    elif not str(type.__getattribute__(kind, "__module__")).startswith(_OF_TORCH):  # a class may say anything
        yield from _attributes(_own_names(value))


def _key_text(key: Any) -> str:
    """Write a key with a short text of its own; of others the type, since a text runs their code, or prints tensors."""
    if type(key) in (str, int, float, bool, bytes):
        return f"{key!r:.20}"
    return type(key).__name__


def _own_names(value: Any) -> dict[str, Any]:
    """Return an object's attributes without running its class's code, which may warn or compute them."""
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    if not isinstance(found, Mapping):
        return {}
    return dict(found)


_OF_TORCH = ("torch._dynamo", "torch._inductor")
"""What these keep is not the user's."""


def _of_function(value: types.FunctionType) -> Iterator[tuple[Any, _Step]]:
    for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
        try:
            yield cell.cell_contents, _Step(f" (closure: {name})", name)
        except ValueError:  # not set yet
            continue
    for inner in value.__defaults__ or ():
        yield inner, _Step(" (default of an argument)", value.__name__)


_PARTS_OF_MODULE = ("_parameters", "_buffers", "_modules")


def _attributes(names: Mapping[str, Any]) -> Iterator[tuple[Any, _Step]]:
    for name, inner in tuple(names.items()):
        # A module's own dictionaries: a user writes `model.weight`, and not `model._parameters['weight']`.
        if name in _PARTS_OF_MODULE and isinstance(inner, dict):
            for part, each in tuple(inner.items()):
                yield each, _Step(f".{part}", part)
        elif not name.startswith("__"):
            yield inner, _Step(f".{name}", name)


def line_that_adds(name: str, files: set[str]) -> tuple[str, int] | None:
    """Return the only line of some files that adds something to what has a name; None: there is none, or several."""
    # A line that adds is surer than one that replaces, which may only set a new value.
    for lines in (_adding_lines, _replacing_lines):
        found = [(file, line) for file in sorted(files) for line in lines(name, _parsed(file))]
        if found:
            # Several lines add to it, and none is surely the one.
            if len(found) != 1:
                return None
            return found[0]
    return None


@functools.cache
def _parsed(file: str) -> ast.Module:
    try:
        return ast.parse(Path(file).read_text("utf-8"))
    except (OSError, SyntaxError, UnicodeDecodeError):
        return ast.Module([], [])


def _adding_lines(name: str, module: ast.Module) -> Iterator[int]:
    for each in ast.walk(module):
        match each:
            case ast.Call(func=ast.Attribute(value=owner, attr=method)) if method in _ADDS and _named(owner, name):
                yield each.lineno
            case ast.Assign(targets=targets) if any(_is_element(target, name) for target in targets):
                yield each.lineno
            case ast.AugAssign(target=target) if _named(target, name):
                yield each.lineno


def _replacing_lines(name: str, module: ast.Module) -> Iterator[int]:
    """Yield the lines that make a new value of an old one, such as `self.cache = torch.cat([self.cache, k])`."""
    for each in ast.walk(module):
        if isinstance(each, ast.Assign) and any(_named(target, name) for target in each.targets):
            parts = (part for part in ast.walk(each.value) if isinstance(part, ast.expr))
            yield from [each.lineno] * any(_named(part, name) for part in parts)


def _is_element(target: ast.expr, name: str) -> bool:
    return isinstance(target, ast.Subscript) and _named(target.value, name)


def _named(value: ast.expr, name: str) -> bool:
    return (isinstance(value, ast.Name) and value.id == name) or (
        isinstance(value, ast.Attribute) and value.attr == name
    )


def namespaces_of(is_users: Callable[[str], bool]) -> dict[str, Mapping[str, Any]]:
    """Return the names of each module whose file is the user's."""
    found: dict[str, Mapping[str, Any]] = {}
    for name, module in tuple(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and is_users(file):
            found[name] = vars(module)
    # A program's main module may have no file, as under a debugger.
    main = sys.modules.get("__main__")
    if main is not None and "__main__" not in found:
        found["__main__"] = vars(main)
    return found


_LOOKS_AT_ITS_NAMES = frozenset(("locals", "vars", "dir", "eval", "exec"))


def names_on_stack(frame: FrameType | None, is_users: Callable[[str], bool]) -> dict[str, Mapping[str, Any]]:
    """Return the variables of each function of the user's that runs, by the name of the function.

    Until 3.12, a frame keeps the dict that it makes of its variables, and with it what they held: it is emptied. That
    of a function that asks for its variables is its own, too, so such a function is left out.
    """
    found: dict[str, Mapping[str, Any]] = {}
    while frame is not None:
        code = frame.f_code
        is_function = code.co_flags & inspect.CO_OPTIMIZED
        if is_function and is_users(code.co_filename) and not _LOOKS_AT_ITS_NAMES & {*code.co_names}:
            variables = frame.f_locals
            found.setdefault(f"{code.co_qualname}()", dict(variables))  # no name of a module
            if type(variables) is dict:  # since 3.13 a proxy, which writes to the frame
                variables.clear()
        frame = frame.f_back
    return found


_STATM = Path("/proc/self/statm")
_MOST_HELD = 50
"""Holders that are listed, the largest first."""
_MOST_CALLS = 200
"""Points of a curve of calls: about as many as a page has columns."""
_MOST_SIZES = 7
"""The calls before the last one whose lines are compared with each other."""
_FIRST = 8
"""The first calls, after each of which the variables of functions are looked at."""
_GROWS = 3
"""The least calls after which a tensor that is larger each time is one that grows."""


class GrowingCalls:
    """Compares what is alive after each call with what was alive before the first one."""

    def __init__(self, ledger: Ledger, lines: OperatorLines, *, sees_functions: bool = False) -> None:
        """Compare with what is alive now.

        Args:
            ledger: knows what is alive.
            lines: knows the user's code.
            sees_functions: whether a function of the user's may hold what is left, and end before anyone looks.
        """
        self._sees_functions = sees_functions
        self._seen: tuple[HeldMemory, ...] = ()
        """What functions that ran had after a call."""
        self._ledger = ledger
        self._lines = lines
        self._alive = ledger.total()
        self._host = host_bytes()
        self._begins = [ledger.count]
        """How many storages there were when each call began."""
        self.calls: list[CallGrowth] = []
        self._sizes: list[dict[tuple[str | None, int | None], int]] = []
        """The bytes of each line that were alive after each of the last calls."""

    def after_call(self) -> None:
        """Note what is alive after a call."""
        host = host_bytes()
        if host is None or self._host is None:
            change = None
        else:
            change = host - self._host
        alive = self._ledger.alive()
        self.calls.append(CallGrowth(len(self.calls) + 1, sum(alive.values()) - self._alive, change))
        sizes: dict[tuple[str | None, int | None], int] = {}
        for stored, size in alive.items():
            place = stored.origin[:2]
            sizes[place] = sizes.get(place, 0) + size
        self._sizes = [*self._sizes[-_MOST_SIZES:], sizes]
        self._begins.append(self._ledger.count)
        if self._sees_functions and self._is_time_to_look():
            self._seen = self._held_by(names_on_stack(sys._getframe(1), self._lines.is_users))

    def _is_time_to_look(self) -> bool:
        """Whether something has grown, after each of the first calls and then ever more rarely: a search takes time."""
        count = len(self.calls)
        # Powers of two: 16, 32, 64 ...
        is_one = count <= _FIRST or not count & (count - 1)
        # More than after the first call, which fills caches once.
        return count > 1 and is_one and self.calls[-1].bytes > self.calls[0].bytes

    def sampled(self) -> tuple[CallGrowth, ...]:
        """Return some calls of a long program, the last one included."""
        step = -(-len(self.calls) // _MOST_CALLS) or 1
        # From the end on, so that the last call is among them.
        return tuple(self.calls[(len(self.calls) - 1) % step :: step])

    def held(self) -> tuple[HeldMemory, ...]:
        """Say what several calls after the first one have left, the largest first, and what holds it."""
        found = self._held_by({})
        if self.calls and self.calls[-1].bytes > self.calls[0].bytes:
            known = {(each.file, each.line) for each in found}
            found = (*found, *(each for each in self._seen if each.holder and (each.file, each.line) not in known))
        return tuple(sorted(found, key=lambda each: -each.bytes)[:_MOST_HELD])

    def _held_by(self, functions: Mapping[str, Mapping[str, Any]]) -> tuple[HeldMemory, ...]:
        """Look for what holds it among the names of the user's modules, and of functions that run."""
        addresses = self._ledger.addresses()
        # What the first call leaves is set up once; only what later ones add grows.
        left = {each: address for each, address in addresses.items() if self._call_of(each) > 1}
        if not left:
            return ()
        namespaces = namespaces_of(self._lines.is_users)
        holders = holders_of(set(left.values()), {**functions, **namespaces})
        files = {os.path.realpath(names.get("__file__") or sys.argv[0]) for names in namespaces.values()}
        grouped: dict[tuple[Any, ...], list[TrackedStorage]] = {}
        for each, address in left.items():
            grouped.setdefault((each.origin[:2], holders.get(address)), []).append(each)
        return tuple(_held(some, holder, files) for holder, some in self._kept(grouped, files))

    def _kept(
        self, grouped: Mapping[tuple[Any, TensorHolder | None], list[TrackedStorage]], files: set[str]
    ) -> Iterator[tuple[TensorHolder | None, list[TrackedStorage]]]:
        """Yield what holds tensors of several calls, or a tensor that grows; the keys are places and holders."""
        alone: dict[tuple[Any, TensorHolder | None], list[tuple[TensorHolder | None, list[TrackedStorage]]]] = {}
        for (place, holder), some in grouped.items():
            if self._are_of_several_calls(some):
                yield holder, some
            else:
                container = None
                if holder is not None:
                    container = holder.container
                alone.setdefault((place, container), []).append((holder, some))
        for (place, container), groups in alone.items():
            together = [each for _, some in groups for each in some]
            if container is not None and self._are_of_several_calls(together):
                yield container, together  # each call adds an object to it, which holds one
            else:
                yield from (each for each in groups if self._grows(place, each[0], files))

    def _are_of_several_calls(self, some: list[TrackedStorage]) -> bool:
        return len(set(map(self._call_of, some))) > 1

    def _grows(self, place: tuple[str | None, int | None], holder: TensorHolder | None, files: set[str]) -> bool:
        """Whether a line holds more after each call, in tensors that replace each other, such as a cache of `cat`.

        A plain variable only counts if a line makes its value of the old one: inputs may become longer, too.
        """
        sizes = [each.get(place, 0) for each in self._sizes]
        is_kept = holder is not None and (
            not holder.text.isidentifier() or line_that_adds(holder.name, files) is not None
        )
        return is_kept and len(sizes) >= _GROWS and all(one < two for one, two in itertools.pairwise(sizes))

    def _call_of(self, stored: TrackedStorage) -> int:
        """Return the number of the call that made a storage; 0: it is older than the first one."""
        # The beginnings of calls are in order, and so are the numbers of storages.
        return bisect_right(self._begins, stored.born)


def _held(some: list[TrackedStorage], holder: TensorHolder | None, files: set[str]) -> HeldMemory:
    origin = some[0].origin
    at, text = None, ""
    if holder is not None:
        at = line_that_adds(holder.name, files)
        if holder.by_graph:
            text = f"the graph of autograd of {holder.text}"
        else:
            text = holder.text
    holder_file, holder_line = (None, None) if at is None else at
    return HeldMemory(
        bytes=sum(each.bytes for each in some),
        count=len(some),
        file=origin.file,
        line=origin.line,
        holder=text,
        source=source_line(origin.file, origin.line),
        holder_file=holder_file,
        holder_line=holder_line,
    )


def host_bytes() -> int | None:
    """Return the memory that this process has; None: the system does not say."""
    try:
        return int(_STATM.read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None

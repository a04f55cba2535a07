"""Find where an eager call reads what another call may read differently: clocks, random numbers, addresses, files.

`Sources` observes the call with a profile function, which sees each call of a function of C, and of Python. A source
counts if the line that reads it belongs to the user or a library, not to torch, NumPy or Python: torch itself reads
clocks and ids without an effect on results.

Lines that depend on the order of a set, and those that draw NumPy's random numbers, are found by reading the source
(`set_readings`, `numpy_draws`): a set is iterated without a call, and NumPy's generators are called without an event
(Python 3.11). The order of a set of strings depends on PYTHONHASHSEED, that of a set of objects on their addresses;
compiled code may use the order in which they were added. So names are looked up where a function of the program ended.
"""

import ast
import linecache
import os
import random
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from functools import lru_cache
from inspect import getattr_static
from types import CodeType, FrameType, ModuleType
from typing import Any

from msgspec import Struct

from ctrace.inspector.capture.core.callers import OURS, folder_of_torch, folder_of_triton

_UNKNOWN = object()
_ORDERLESS = frozenset(
    ("len", "sorted", "min", "max", "any", "all", "bool", "set", "frozenset", "isinstance", "issubclass", "type", "id")
)
"""Functions whose result is the same for any order of a set."""
_OF_SETS = frozenset(("union", "intersection", "difference", "symmetric_difference", "copy"))
_OPERATORS = (ast.BitOr, ast.BitAnd, ast.Sub, ast.BitXor)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


class Namespace(Struct, frozen=True):
    """What the names of a function stood for when it returned."""

    local: dict[str, Any]
    globals: dict[str, Any]


def set_readings(code: CodeType, names: Namespace) -> Iterator[tuple[int, str]]:
    """Yield the lines of a function whose result may depend on the order of a set."""
    reader = _Reader(names)
    for node in _nodes(code):
        for each in _iterated(node):
            if reader.is_unordered(each):
                yield each.lineno, f"the order of the set `{ast.unparse(each)[:40]}`"


def numpy_draws(code: CodeType, names: Namespace) -> Iterator[tuple[int, str]]:
    """Yield the lines of a function that call a random generator of NumPy."""
    reader = _Reader(names)
    for node in _nodes(code):
        if isinstance(node, ast.Call) and reader.draws(node.func):
            yield node.lineno, ast.unparse(node.func)


def _nodes(code: CodeType) -> Iterator[ast.AST]:
    """Yield the nodes of a function's own code, which other functions inside it are not."""
    for function in _functions(code.co_filename):
        first = min([function.lineno, *(each.lineno for each in getattr(function, "decorator_list", ()))])
        # Python counts a function's lines from its first decorator.
        if first == code.co_firstlineno and getattr(function, "name", "<lambda>") == code.co_name:
            if isinstance(function.body, list):
                body = function.body
            else:
                body = [function.body]
            for statement in body:
                yield from _own(statement)
            return


def _own(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for each in ast.iter_child_nodes(node):
        if not isinstance(each, _FUNCTIONS):
            yield from _own(each)


@lru_cache(maxsize=64)
def _functions(file: str) -> tuple[Any, ...]:
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return ()
    return tuple(node for node in ast.walk(tree) if isinstance(node, _FUNCTIONS))


def _iterated(node: ast.AST) -> Iterator[Any]:
    """Yield the expressions that a statement or expression iterates, in the order of their items."""
    match node:
        case (
            ast.For(iter=found) | ast.comprehension(iter=found) | ast.Starred(value=found) | ast.YieldFrom(value=found)
        ):
            yield found
        case ast.Assign(targets=[ast.Tuple() | ast.List(), *_], value=found) | ast.FormattedValue(value=found):
            yield found
        case ast.Call(func=ast.Attribute(attr="pop", value=found), args=[]):
            yield found
        # Before the general case, which takes every argument of a call as iterated.
        case ast.Call(func=ast.Name(id=name)) if name in _ORDERLESS:
            pass
        case ast.Call(func=ast.Attribute(attr=name)) if name in _OF_SETS or name == "update":
            pass
        case ast.Call(args=found):
            yield from found


class _Reader:
    """Finds out what expressions stand for, without running them."""

    def __init__(self, names: Namespace) -> None:
        self._names = names

    def is_unordered(self, node: ast.AST) -> bool:
        """Whether an expression is a set whose order may differ between processes, or between copies."""
        match node:
            case ast.Set(elts=items):
                # The hash of a number is the same in each process, so the order of such a set is, too.
                return not all(isinstance(each, ast.Constant) and _is_stable(each.value) for each in items)
            case ast.SetComp():
                return True
            case ast.Call(func=ast.Name(id="set" | "frozenset"), args=[_, *_]):
                return True
            case ast.Call(func=ast.Attribute(attr=name, value=value)) if name in _OF_SETS:
                return self.is_unordered(value)
            case ast.BinOp(left=left, right=right, op=operator) if isinstance(operator, _OPERATORS):
                # `d.keys() - other` is a set as well.
                return self.is_unordered(left) or self.is_unordered(right) or _is_view(left)
            case ast.Name() | ast.Attribute():
                value = self._value(node)
                return isinstance(value, set | frozenset) and not all(map(_is_stable, value))
        return False

    def draws(self, function: ast.AST) -> bool:
        """Whether a function belongs to a random generator of NumPy."""
        value = self._value(function)
        if value is _UNKNOWN:  # a method of an instance of C
            if isinstance(function, ast.Attribute):
                owner = self._value(function.value)
            else:
                owner = _UNKNOWN
        else:
            # Without running a property of the program, which could draw by itself.
            owner = getattr_static(value, "__self__", _UNKNOWN)
            if owner is not _UNKNOWN:
                owner = getattr(value, "__self__", _UNKNOWN)
        return str(type(owner).__module__).startswith("numpy.random")

    def _value(self, node: ast.AST) -> Any:
        """Return what a name or an attribute of one stands for; no code of the program runs."""
        if isinstance(node, ast.Name):
            return self._names.local.get(node.id, self._names.globals.get(node.id, _UNKNOWN))
        if not isinstance(node, ast.Attribute):
            return _UNKNOWN
        owner = self._value(node.value)
        if owner is _UNKNOWN:
            return _UNKNOWN
        if isinstance(owner, ModuleType):
            return vars(owner).get(node.attr, _UNKNOWN)
        try:
            # Past properties and `__getattr__`, whose code must not run a second time.
            found = object.__getattribute__(owner, "__dict__").get(node.attr, _UNKNOWN)
        except AttributeError:
            return _UNKNOWN
        if found is not _UNKNOWN:
            return found
        return vars(type(owner)).get(node.attr, _UNKNOWN)


def _is_stable(value: Any) -> bool:
    """Whether the hash of a value is the same in every process."""
    return isinstance(value, int | float | complex)


def _is_view(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("keys", "items")


# The source of each is parsed when the call is over.
_MOST_FUNCTIONS = 2000
"""Functions of the program in which to look for sets and NumPy's generators."""


class SourceKind(Enum):
    """What a source means for a comparison."""

    RANDOM = "random"
    """It draws random numbers; compiled code may draw others."""
    COMPILING = "compiling"
    """It asks whether the code is being compiled."""
    VARYING = "varying"
    """Another process, or the next call, may get another value."""
    SEEN = "seen"
    """It may explain why eager calls differ; it is no reason to doubt those that agree."""


_ORDER = list(SourceKind)


class RandomSource(Struct, frozen=True):
    """A call that reads such a thing, and the line of the program that makes it."""

    kind: SourceKind
    what: str
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.what} at {os.path.basename(self.file)}:{self.line}"  # noqa: PTH119 - a name, not a path


_SYSTEM = "urandom getrandom getpid getppid times getloadavg read listdir scandir stat lstat open access"
_READING = "read readline readlines readinto __next__"
_VARYING = {
    "time": (
        "time time_ns perf_counter perf_counter_ns monotonic monotonic_ns process_time process_time_ns thread_time "
        "thread_time_ns clock_gettime clock_gettime_ns localtime gmtime ctime asctime strftime"
    ),
    "datetime": "now utcnow today",
    "date": "today",
    "posix": _SYSTEM,
    "nt": _SYSTEM,
    "io": "open",
    "_io": "open open_code",
    **dict.fromkeys(("FileIO", "BufferedReader", "BufferedRandom", "TextIOWrapper"), _READING),
    "builtins": "id hash",
    "object": "__hash__",
    "Tensor": "data_ptr",
    "UntypedStorage": "data_ptr",
    "TypedStorage": "data_ptr",
    "_uuid": "generate_time_safe",
    "_thread": "start_new_thread start_joinable_thread get_ident get_native_id",
    "SimpleQueue": "get put",
    "sys": "getrefcount",
    "gc": "get_count get_objects get_stats",
    "resource": "getrusage",
    "socket": "recv",
    "Connection": "execute",
    "Cursor": "execute fetchone fetchall",
    "numpy": "empty empty_like",
}
"""Functions of C by module or class: clocks, addresses, entropy, files, threads, and memory that is not initialized."""
_READS = {f"{owner}.{name}": SourceKind.VARYING for owner, names in _VARYING.items() for name in names.split()}
_READS |= {"builtins.next": SourceKind.SEEN, "sys._getframe": SourceKind.SEEN}
_IS_COMPILING = ("is_compiling", "is_dynamo_compiling")
_QUIET = frozenset(
    (
        "contextlib",
        "copy",
        "dataclasses",
        "json",
        "linecache",
        "logging",
        "pprint",
        "reprlib",
        "traceback",
        "tracemalloc",
        "warnings",
    )
)
"""Modules of Python that read clocks and ids for their own ends."""


class Sources:
    """Collects the sources that a call reads."""

    def __init__(self) -> None:
        import torch

        # The first operation under a mode imports it (torch/_compile.py, 2.13), with SymPy, which draws random numbers.
        import torch._dynamo

        paths = sysconfig.get_paths()
        self._python = tuple({f"{paths[name]}{os.sep}" for name in ("stdlib", "platstdlib")})
        self._packages = tuple({f"{paths[name]}{os.sep}" for name in ("purelib", "platlib")})
        self._torch = folder_of_torch()
        # ctrace's own frames are on the stack while it watches.
        self._ignored = tuple(each for each in (self._torch, OURS, folder_of_triton(), _folder_of("numpy")) if each)
        self._codes: dict[CodeType, Namespace] = {}
        self._found: dict[tuple[str, str, int], RandomSource] = {}
        self._functions: dict[CodeType, bool] = {}
        self._large = (torch.Tensor, list, tuple, dict)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Collect what is called in the block, by this thread."""
        # The program may profile itself, and goes on to do so after the block.
        before = sys.getprofile()
        # Unlike a trace function, a profile function sees calls of C, and does not slow down every line.
        sys.setprofile(self._profile)
        try:
            yield
        finally:
            sys.setprofile(before)

    def add(self, kind: SourceKind, what: str, frame: FrameType | None) -> None:
        """Note a source that a line reads, if the line counts."""
        place = self._place(frame, what)
        if place is not None:
            self._note(kind, *place)

    def add_operation(self, kind: SourceKind, what: str) -> None:
        """Note a source in an operation of torch that runs now, at the line of the program that causes it."""
        frame: FrameType | None = sys._getframe(1)
        # The nearest line of the program: torch's frames lie in between.
        while frame is not None and not self._is_programs(frame.f_code):
            frame = frame.f_back
        if frame is not None:
            self._note(kind, what, frame.f_code.co_filename, frame.f_lineno)

    def all(self) -> list[RandomSource]:
        """List the sources, those that are certain to vary first."""
        for code, namespace in self._codes.items():
            for line, what in set_readings(code, namespace):
                self._note(SourceKind.VARYING, what, code.co_filename, line)
            for line, what in numpy_draws(code, namespace):
                self._note(SourceKind.RANDOM, what, code.co_filename, line)
        found = [*self._found.values(), *_threads(self._is_users)]
        return sorted(found, key=lambda each: _ORDER.index(each.kind))

    def _note(self, kind: SourceKind, what: str, file: str, line: int) -> None:
        known = self._found.get((what, file, line))
        # Of two reasons on one line, the more certain one says more.
        if known is None or _ORDER.index(kind) < _ORDER.index(known.kind):
            self._found[what, file, line] = RandomSource(kind, what, file, line)

    def _profile(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call":
            name = _name(argument)
            kind = _READS.get(name)
            if kind is None and _draws(argument):
                kind = SourceKind.RANDOM
            if kind is not None:
                self.add(kind, name, frame)
        elif event == "call":
            code = frame.f_code
            # These are functions of Python, which come as calls and not as calls of C.
            if code.co_name in _IS_COMPILING and code.co_filename.startswith(self._torch):
                self.add(SourceKind.COMPILING, f"torch.compiler.{code.co_name}", frame.f_back)
        elif event == "return":
            self._returned(frame)

    def _returned(self, frame: FrameType) -> None:
        """Keep what the names of a function of the program stood for."""
        code = frame.f_code
        if len(self._codes) < _MOST_FUNCTIONS and code not in self._codes and self._is_programs(code):
            # A list, dict or tensor is no answer to what a name stands for, and may be large.
            local = {name: each for name, each in frame.f_locals.items() if not isinstance(each, self._large)}
            self._codes[code] = Namespace(local, frame.f_globals)

    def _is_programs(self, code: CodeType) -> bool:
        # Asked for every call in the block, so the answer is kept.
        known = self._functions.get(code)
        if known is None:
            file = code.co_filename
            is_python = file.startswith(self._python) and not file.startswith(self._packages)
            known = self._functions[code] = not (is_python or file.startswith((*self._ignored, "<frozen ")))
        return known

    def _is_users(self, code: CodeType) -> bool:
        return self._is_programs(code) and not code.co_filename.startswith(self._packages)

    def _place(self, frame: FrameType | None, what: str) -> tuple[str, str, int] | None:
        """Return what the nearest line of the program calls, and where; None: torch or NumPy calls it."""
        while frame is not None:
            code = frame.f_code
            if self._is_programs(code):
                return _readable(what), code.co_filename, frame.f_lineno
            file = code.co_filename
            module = str(frame.f_globals.get("__name__", ""))
            if file.startswith(self._ignored) or module.partition(".")[0] in _QUIET:
                return None
            if module and not code.co_name.startswith("_"):
                # The program knows this function of Python by name, such as `uuid.uuid4`, and not what that reads.
                what = f"{module}.{code.co_name}"
            frame = frame.f_back
        return None


def _name(function: Any) -> str:
    """Return the name of a function of C, with its module or class."""
    name = getattr(function, "__name__", "")
    owner = getattr(function, "__self__", None)
    if isinstance(owner, ModuleType):
        # The functions of NumPy's C module have its inner name (numpy/_core, or numpy/core before 2.0).
        return f"{'numpy' if 'multiarray' in owner.__name__ else owner.__name__}.{name}"
    if owner is None:
        return f"{getattr(function, '__module__', None) or ''}.{name}"
    # A class method has its class as `__self__`, any other method its object.
    return f"{(owner if isinstance(owner, type) else type(owner)).__name__}.{name}"


def _draws(function: Any) -> bool:
    """Whether a function of C belongs to a random generator of Python or NumPy."""
    owner = type(getattr(function, "__self__", None))
    return issubclass(owner, random.Random) or str(owner.__module__).startswith("numpy.random")


def _readable(what: str) -> str:
    module, _, name = what.rpartition(".")
    shown = {
        "builtins": "",
        "posix": "os.",
        "nt": "os.",
        "_thread": "threading.",
        "Random": "random.",
        "_io": "",
        "io": "",
    }
    return f"{shown.get(module, f'{module}.')}{name}"


def _folder_of(module: str) -> str:
    file = getattr(sys.modules.get(module), "__file__", None)
    return f"{os.path.dirname(file)}{os.sep}" if file else ""  # noqa: PTH120 - a prefix of names


def _threads(is_users: Callable[[CodeType], bool]) -> Iterator[RandomSource]:
    """Yield the threads that run the user's code now: they may change what the call reads."""
    for identity, frame in sys._current_frames().items():
        if identity == threading.get_ident():
            continue
        at: FrameType | None = frame
        while at is not None and not is_users(at.f_code):
            at = at.f_back
        if at is not None:
            yield RandomSource(SourceKind.VARYING, "another thread", at.f_code.co_filename, at.f_lineno)

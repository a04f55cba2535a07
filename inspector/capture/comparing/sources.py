"""Find where an eager call reads what another call may read differently: clocks, random numbers, addresses, files.

A profile function sees each call of a function of C, and of Python. A source counts if the line that reads it belongs
to the user or a library, not to torch, NumPy or Python: torch itself reads clocks and ids without an effect on results.
"""

import os
import random
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from types import CodeType, FrameType, ModuleType
from typing import Any

from msgspec import Struct

from ctrace.inspector.capture.comparing.hash_order import Namespace, numpy_draws, set_readings
from ctrace.inspector.capture.core.callers import OURS, folder_of_torch, folder_of_triton

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

        paths = sysconfig.get_paths()
        self._python = tuple({f"{paths[name]}{os.sep}" for name in ("stdlib", "platstdlib")})
        self._packages = tuple({f"{paths[name]}{os.sep}" for name in ("purelib", "platlib")})
        self._torch = folder_of_torch()
        self._ignored = tuple(each for each in (self._torch, OURS, folder_of_triton(), _folder_of("numpy")) if each)
        self._codes: dict[CodeType, Namespace] = {}
        self._found: dict[tuple[str, str, int], RandomSource] = {}
        self._functions: dict[CodeType, bool] = {}
        self._large = (torch.Tensor, list, tuple, dict)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Collect what is called in the block, by this thread."""
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
            what = f"{module}.{code.co_name}" if module and not code.co_name.startswith("_") else what
            frame = frame.f_back
        return None


def _name(function: Any) -> str:
    """Return the name of a function of C, with its module or class."""
    name = getattr(function, "__name__", "")
    owner = getattr(function, "__self__", None)
    if isinstance(owner, ModuleType):
        return f"{'numpy' if 'multiarray' in owner.__name__ else owner.__name__}.{name}"
    if owner is None:
        return f"{getattr(function, '__module__', None) or ''}.{name}"
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

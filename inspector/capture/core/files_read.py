"""Record what a model depends on, so that a later check can tell whether that has changed.

`files_read` records the user's modules and the files that Python code opens for reading. What the kernel sees of the
program, such as files that native code opens, comes from `processes/system_calls.py`. `PythonQuestions` records what
Python code asks that the kernel does not see, or not by its name:

- **Environment variables** are memory. `os.environ` and `os.environb` pass each name to a function that encodes it, and
  each name of an iteration to one that decodes it; both are attributes of the object, in whose place we put our own.
- **Modules**: Python's import system lists a folder once and then looks names up in the list. A finder that finds
  nothing hears all the names, and an audit hook tells those listings from the program's own.
- **Deeds** such as starting a process: an audit hook tells the line.

A process that serves forks begins before it imports torch; its forks go on with what it has recorded.
"""

import hashlib
import importlib.abc
import os
import sys
import sysconfig
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.machinery import ModuleSpec
from os import fspath, getpid
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from ctrace.inspector.capture.core.environment import library_prefixes
from ctrace.inspector.capture.core.hook import Hook, When
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.facts.outcome import Asked
from ctrace.inspector.facts.run_events import FilesFound
from ctrace.inspector.install_folders import PACKAGES
from ctrace.inspector.processes import system_calls

OURS = tuple(str(PACKAGES / each) for each in ("cli", "inspector", "reports", "ctrace"))
_STARTS = "starts a process"
_NETWORK = "uses the network"
_DEEDS = {
    "subprocess.Popen": _STARTS,
    "os.system": _STARTS,
    "os.exec": _STARTS,
    "os.posix_spawn": _STARTS,
    "os.spawn": _STARTS,
    "os.fork": _STARTS,
    "os.forkpty": _STARTS,
    "pty.spawn": _STARTS,
    "socket.bind": _NETWORK,
    "socket.connect": _NETWORK,
    "socket.sendto": _NETWORK,
    "socket.getaddrinfo": _NETWORK,
    "socket.gethostbyname": _NETWORK,
    "socket.gethostbyaddr": _NETWORK,
    "socket.getnameinfo": _NETWORK,
}
"""Audit events of what nobody can ask again (https://docs.python.org/3/library/audit_events.html)."""
_ADDRESSED = ("socket.bind", "socket.connect", "socket.sendto")
_IMPORTING = ("_fill_cache", "<frozen importlib._bootstrap_external>")
"""`FileFinder._fill_cache`, which lists a folder for the import system (Python 3.11 to 3.14)."""
_PREFIXED = ("networkx.utils.backends", "tqdm.utils")
"""Modules that torch imports and that go through all variables for those with a prefix, `NETWORKX_` and `TQDM_`
(networkx 3.0 to 3.6, tqdm 4.66); these count for every model, see `runs/circumstances.py`."""
_METADATA = ("children", os.path.join("importlib", "metadata", "__init__.py"))  # noqa: PTH118
"""`FastPath.children`, which lists a folder for `importlib.metadata` (Python 3.11 to 3.14)."""


class PythonQuestions:
    """Collects the questions of this process."""

    def __init__(self) -> None:
        self._is_recording = False
        self.variables: set[str] = set()
        self.all_variables = False
        self.modules: dict[str, set[str]] = {}
        self.listed_by_import: Counter[str] = Counter()
        self.listed_for_packages: Counter[str] = Counter()
        self.deeds: dict[str, tuple[str, int]] = {}
        self._top_level: set[str] = set()
        self._process = 0
        self._stdlib: tuple[str, ...] = ()

    def begin(self) -> None:
        """Record variables from now on; the second time, in a fork, do nothing."""
        if not self._is_recording:
            self._is_recording = True
            for variables in (os.environ, getattr(os, "environb", None)):
                if variables is not None:
                    self._hear(variables)

    def begin_to_listen(self) -> Callable[[], None]:
        """Record listings and deeds from now on, in this process alone; return a function that ends it."""
        self._process = os.getpid()
        self._stdlib = stdlib_folders()
        sys.addaudithook(self._note)

        def end() -> None:
            # No process has this number: Python cannot remove an audit hook, so `_note` ignores its events from now on.
            self._process = 0

        return end

    @contextmanager
    def hearing_names(self) -> Iterator[None]:
        """Record the modules that are looked for in the block."""
        finder = _Names(self)
        # First: a finder that finds the module ends the search, and those behind it never hear the name.
        sys.meta_path.insert(0, finder)
        try:
            yield
        finally:
            sys.meta_path.remove(finder)

    def look_for(self, name: str, path: Sequence[str] | None) -> None:
        """Note that a module is looked for in these folders; None: in those of `sys.path`."""
        if path is None:
            self._top_level.add(name)
        tail = name.rpartition(".")[2]
        with suppress(OSError):  # the working folder is gone
            for folder in sys.path if path is None else path:
                self.modules.setdefault(_absolute(folder), set()).add(tail)

    def all_modules(self) -> dict[str, set[str]]:
        """Return the names by folder; each folder of `sys.path` gets all: a module there may hide a later one."""
        # Python looks for the first two at startup, before this process can record it.
        names = {"sitecustomize", "usercustomize"} | self._top_level | {name.partition(".")[0] for name in sys.modules}
        folders = {_absolute(each): names for each in sys.path}
        return {
            folder: self.modules.get(folder, set()) | folders.get(folder, set()) for folder in {*self.modules, *folders}
        }

    def _hear(self, variables: Any) -> None:
        encode, decode = variables.encodekey, variables.decodekey

        def encodekey(key: Any) -> Any:
            if isinstance(key, str | bytes) and _is_question():
                self.variables.add(os.fsdecode(key))
            return encode(key)

        def decodekey(key: Any) -> Any:
            self.all_variables = self.all_variables or _is_question()
            return decode(key)

        for function in (encodekey, decodekey):
            # Dynamo, when it traces a read of a variable, calls a function with this mark instead of tracing it
            # (torch/_dynamo/decorators.py:assume_constant_result, 2.11 to 2.15): the graph is the same as without us.
            function._dynamo_marked_constant = True  # type: ignore[attr-defined]
        variables.encodekey, variables.decodekey = encodekey, decodekey

    def _note(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Note an audit event."""
        # Audit events come by the thousand, so a table decides, not a chain of comparisons.
        note = _NOTED.get(event)
        if note is not None and self._process == os.getpid():
            note(self, event, arguments, sys._getframe(1))

    def note_listing(self, _event: str, arguments: tuple[Any, ...], frame: FrameType) -> None:
        """Note a listing by Python itself."""
        path = arguments[0]
        if isinstance(path, int):
            return
        code = frame.f_code
        if (code.co_name, code.co_filename) == _IMPORTING:
            counter = self.listed_by_import
        elif code.co_name == _METADATA[0] and code.co_filename.endswith(_METADATA[1]):
            counter = self.listed_for_packages
        else:
            return
        counter[os.path.abspath(os.fsdecode(path or "."))] += 1  # noqa: PTH100

    def note_deed(self, event: str, arguments: tuple[Any, ...], frame: FrameType) -> None:
        """Note what nobody can ask again."""
        deed = _DEEDS.get(event, "")
        if event == "open":
            path = arguments[0]
            if not isinstance(path, str) or not path.startswith("/proc/"):
                return
            deed = f"reads {path}"
        elif event in _ADDRESSED and not isinstance(arguments[1], tuple):
            return  # a socket of this machine, which the kernel reports with its path
        # Walking the stack is the expensive part; the first line is enough.
        if deed in self.deeds:
            return
        nearest, users = self._places(frame)
        if event == "open" and nearest != users:
            return  # libraries read facts of the machine there; psutil reads /proc/stat when it is imported
        if nearest is not None:
            self.deeds[deed] = users or nearest

    def _places(self, frame: FrameType | None) -> tuple[tuple[str, int] | None, tuple[str, int] | None]:
        """Return the nearest line that is not Python's, and the user's nearest; none of them if ctrace is nearer."""
        nearest = None
        prefixes = tuple(library_prefixes())
        while frame is not None:
            path = frame.f_code.co_filename
            if nearest is None and path.startswith(OURS):
                return None, None
            if not path.startswith("<") and not (path.startswith(self._stdlib) and "-packages" not in path):
                nearest = nearest or (path, frame.f_lineno)
                if not path.startswith(prefixes):
                    return nearest, (path, frame.f_lineno)
            frame = frame.f_back
        return nearest, None


def _absolute(folder: object) -> str:
    """Return an entry of a path as Python's import system reads it; a program may have added other things than text."""
    return os.path.abspath(str(folder))  # noqa: PTH100


def _is_question() -> bool:
    """Whether the code that uses `os.environ` is the program's, and no module of `_PREFIXED`."""
    frame: FrameType | None = sys._getframe(2)
    # `os.environ.get` goes through `Mapping.get`, whose module `_collections_abc` calls itself `collections.abc`.
    while frame is not None and (name := frame.f_globals.get("__name__", "")) in ("os", "collections.abc"):
        frame = frame.f_back
    return frame is None or not str(name).startswith(("ctrace.", *_PREFIXED))


class _Names(importlib.abc.MetaPathFinder):
    """Finds nothing, but hears every name that is looked for."""

    def __init__(self, questions: PythonQuestions) -> None:
        self._questions = questions

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        self._questions.look_for(fullname, path)
        return None


_NOTED = {
    **dict.fromkeys((*_DEEDS, "open"), PythonQuestions.note_deed),
    **dict.fromkeys(("os.listdir", "os.scandir"), PythonQuestions.note_listing),
}
"""Who notes which audit event."""
QUESTIONS = PythonQuestions()
"""The questions of this process."""


def stdlib_folders() -> tuple[str, ...]:
    """Return the folders of Python's own modules, as Python spells them."""
    paths = sysconfig.get_paths()
    return tuple(f"{paths[name]}{os.sep}" for name in ("stdlib", "platstdlib"))


def described(questions: PythonQuestions, owned: Iterable[str]) -> Asked:
    """Return the questions; `owned` are paths that count as the user's."""
    prefixes = tuple(f"{each}{os.sep}" for each in library_prefixes() if each not in owned)
    loaded: dict[str, set[str]] = {}
    for path in _loaded_files():
        if path.startswith(prefixes) and not path.startswith(OURS):
            folder, _, name = path.rpartition(os.sep)
            loaded.setdefault(folder, set()).add(name)
    return Asked(
        variables=tuple(sorted(questions.variables)),
        all_variables=questions.all_variables,
        modules={folder: tuple(sorted(names)) for folder, names in questions.all_modules().items()},
        listed_by_import=dict(questions.listed_by_import),
        listed_for_packages=dict(questions.listed_for_packages),
        libraries={folder: tuple(sorted(names)) for folder, names in loaded.items()},
        prefixes=prefixes,
        deeds=questions.deeds,
    )


def _loaded_files() -> Iterator[str]:
    """Yield the files of loaded modules and of native libraries."""
    # A copy: another thread, or a lazy module that is asked for `__file__`, may import while this goes on.
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if isinstance(path, str):
            yield os.path.abspath(path)  # noqa: PTH100
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123
            # Address, permissions, offset, device, inode, and then the path, which may contain spaces.
            paths = {line.split(maxsplit=5)[5].rstrip("\n") for line in file if line.count("/")}
    except (OSError, IndexError):
        return
    yield from (path for path in paths if ".so" in path)


# A program that walks a data set must not have all of it hashed.
_MOST_FILES = 5000
# Of one file: weights are larger, and hashing them would take longer than the run is worth.
_MOST_BYTES = 1 << 28
_SYSTEM = ("/proc/", "/dev/", "/sys/")
_WRITES = os.O_WRONLY | os.O_RDWR


def files_read(owned: Iterable[str]) -> Hook:
    """Make the hook that records these files; `owned` are paths that count as the user's."""

    @contextmanager
    def hook(recorder: Recorder, _when: When) -> Iterator[None]:
        opened = _Opened()
        QUESTIONS.begin()
        # Python has no way to remove an audit hook, so `is_over` silences it at the end.
        sys.addaudithook(opened.note)
        stop = QUESTIONS.begin_to_listen()
        try:
            with QUESTIONS.hearing_names():
                yield
        finally:
            opened.is_over = True
            stop()
            if opened.process == getpid():  # a fork of the program must not end what is asked by the program itself
                system_calls.end()
            with recorder.watching("the files of the model"):
                asked = described(QUESTIONS, tuple(owned))
                recorder.add(FilesFound(_digests(opened, tuple(owned)), asked))

    return hook


class _Opened:
    """Collects the files that this process opens."""

    def __init__(self) -> None:
        self.is_over = False
        self.read: set[str] = set()
        self.written: set[str] = set()
        self.began = time.time_ns()
        self.process = getpid()

    def note(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Note an opened file; Python calls this for every audit event, with the arguments of the audited function."""
        # The cheapest question first: Python raises many kinds of events, and waits for each hook.
        if event != "open" or self.is_over or getpid() != self.process:
            return
        path, mode, flags = arguments
        if isinstance(path, int) or path is None:
            return
        # `os.open` passes flags and no mode, `open` passes both.
        if isinstance(flags, int):
            is_written = flags & _WRITES
        else:
            is_written = any(each in str(mode) for each in "wax+")
        (self.written if is_written else self.read).add(os.path.abspath(os.fsdecode(fspath(path))))  # noqa: PTH100


def _digests(opened: _Opened, owned: tuple[str, ...]) -> dict[str, str]:
    """Return the digest of each file, or "" for a file without one and for files beyond the first `_MOST_FILES`."""
    modules = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    sources = {os.path.abspath(each) for each in modules if isinstance(each, str)}  # noqa: PTH100
    libraries = tuple(f"{prefix}{os.sep}" for prefix in {*library_prefixes(), *OURS} if prefix not in owned)
    found: dict[str, str] = {}
    # A file that the program writes is a result, and differs each time.
    for path in sorted((sources | opened.read) - opened.written):
        is_library = path.startswith(libraries) and not path.startswith(owned or ("\0",))
        # A .pyc is made of a source, which is recorded itself.
        if is_library or path.startswith(_SYSTEM) or path.endswith(".pyc") or not Path(path).is_file():
            continue
        found[path] = _digest(path, opened.began) if len(found) < _MOST_FILES else ""
    return found


def _digest(path: str, began: int) -> str:
    """Return the digest of a file, or "" if it is too large or has changed since the program began to read it."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - the program may have replaced pathlib's functions
            status = os.fstat(file.fileno())
            if status.st_size > _MOST_BYTES or max(status.st_mtime_ns, status.st_ctime_ns) >= began:
                return ""
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""

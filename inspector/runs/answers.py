"""What a run's result depends on: every question that its program asked, with the answer that it got.

`answers_of` collects them, and `is_current` asks them again. *There is no such file* is an answer, too. Contents count
for the user's files, and identity (size, times, inode) for libraries, system files and large files: a program cannot
set the time of a change, so an edit in place shows there.

Some code of the user's asks what neither the kernel nor Python reports: the clock, chance, the machine's load. Nobody
can ask these questions again, so the result of such a model is not reused. `unrepeatable` finds that code by parsing
it, and never runs it. In doubt it counts: a needless run costs seconds.
"""

import ast
import getpass
import hashlib
import importlib.machinery
import importlib.util
import json
import mmap
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from ctrace.inspector.facts.outcome import Asked
from ctrace.inspector.install_folders import PACKAGES
from ctrace.inspector.processes.system_calls import answer, listing, stamp
from ctrace.inspector.runs import provenance
from ctrace.inspector.runs.circumstances import file_digest

_CLOCK = "reads the clock"
_CHANCE = "draws random numbers without a seed"
_CORES = "asks for cores or threads, which depend on the other models of the check"
_LOAD = "asks how much memory or disk is free"
_TIMES = "asks for a file's time or identity"
_PROCESS = "asks for the number of a process"
_FINDERS = "looks for modules in a way that ctrace cannot follow"
# Names count wherever they stand, since a program may import them from anywhere, or from another name.
_WORDS: Mapping[str, str] = {
    **dict.fromkeys(
        ("time_ns", "localtime", "gmtime", "asctime", "strftime", "utcnow", "today", "clock_gettime",
         "clock_gettime_ns", "gettimeofday"), _CLOCK,
    ),
    **dict.fromkeys(("urandom", "getrandom", "SystemRandom", "uuid1", "uuid4", "token_hex", "token_bytes"), _CHANCE),
    **dict.fromkeys(
        ("cpu_count", "process_cpu_count", "sched_getaffinity", "get_num_threads", "get_num_interop_threads",
         "getloadavg"), _CORES,
    ),
    **dict.fromkeys(("mem_get_info", "virtual_memory", "disk_usage", "statvfs", "getrusage", "getrlimit",
         "sysconf", "cpu_percent"), _LOAD),
    **dict.fromkeys(
        ("getmtime", "getctime", "getatime", "st_mtime", "st_ctime", "st_atime", "st_mtime_ns", "st_ctime_ns",
         "st_atime_ns", "st_ino", "st_dev", "st_nlink", "st_birthtime", "ST_MTIME", "ST_CTIME", "ST_ATIME",
         "samefile", "sameopenfile", "samestat"), _TIMES,
    ),
    **dict.fromkeys(("getpid", "getppid", "get_native_id"), _PROCESS),
    **dict.fromkeys(("PathFinder", "FileFinder", "path_importer_cache"), _FINDERS),
}  # fmt: skip
"""Names that mean the same in whatever module they are."""
_MODULES: Mapping[str, tuple[str, frozenset[str]]] = {
    "time": (_CLOCK, frozenset(("time", "ctime", "clock_gettime"))),
    "datetime": (_CLOCK, frozenset(("now",))),
    "secrets": (_CHANCE, frozenset()),
    "random": (_CHANCE, frozenset()),
}
"""Modules with the names in them that count; an empty set: all."""


@cache
def unrepeatable(path: Path) -> tuple[int, str] | None:
    """Return the line of the first such question in a file, and what it does, such as `reads the clock`."""
    try:
        text = path.read_bytes()
        # Text without an import cannot ask for the clock, whatever its name is.
        if not path.name.endswith(".py") and b"import" not in text:
            return None  # data; other files may be code that the model runs with exec
        tree = ast.parse(text, str(path))
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return None  # it is no code that ran: a file with the name of one, which is compared as data
    return min(_Code(tree).questions(), default=None)


class _Code:
    """The names in a file, and the modules that they stand for."""

    def __init__(self, tree: ast.Module) -> None:
        self._nodes = list(ast.walk(tree))
        self._modules: dict[str, str] = {}
        for node in self._nodes:
            if isinstance(node, ast.Import):
                self._modules |= {each.asname or each.name.partition(".")[0]: each.name for each in node.names}

    def questions(self) -> Iterator[tuple[int, str]]:
        """Yield the line and kind of each question."""
        has_seed = any(isinstance(node, ast.Call) and self._is_seed(node) for node in self._nodes)
        for node in self._nodes:
            for line, kind in self._of_node(node):
                # With a seed, Python's generator gives the same numbers each time.
                if kind != _CHANCE or not has_seed or not self._is_random(node):
                    yield line, kind

    def _of_node(self, node: ast.AST) -> Iterator[tuple[int, str]]:
        match node:
            case ast.ImportFrom(module=module, names=names):
                kinds = [_WORDS.get(each.name) or _kind(module or "", each.name) for each in names]
            case ast.Attribute(value=value, attr=name):
                kinds = [_WORDS.get(name) or self._of_member(value, name)]
            case ast.Name(id=name):
                kinds = [_WORDS.get(name, "")]
            case ast.Constant(value=str(name)):  # getattr(time, "time_ns"), numpy.datetime64("now")
                kinds = [_CLOCK if name == "now" else _WORDS.get(name, "")]
            case ast.Subscript(value=ast.Call(func=ast.Attribute(attr="stat" | "lstat" | "fstat"))):
                kinds = [_TIMES]
            case ast.Call(func=ast.Attribute(attr="Random"), args=[]):
                kinds = [_CHANCE]
            case _:
                return
        assert isinstance(node, ast.expr | ast.stmt)
        yield from ((node.lineno, kind) for kind in kinds if kind)

    def _of_member(self, value: ast.expr, name: str) -> str:
        """Return the kind of `value.name`."""
        module = ""
        match value:
            case ast.Name(id=variable):
                module = self._modules.get(variable, "")
            case ast.Call(args=[ast.Constant(value=str(imported)), *_]):  # importlib.import_module("time").time
                module = imported
        return _kind(module, name) or (_CLOCK if name == "now" else "")  # datetime.datetime.now, pandas.Timestamp.now

    def _is_random(self, node: ast.AST) -> bool:
        match node:
            case ast.Attribute(value=ast.Name(id=name)):
                return self._modules.get(name) == "random"
            case ast.ImportFrom(module="random"):
                return True
        return False

    def _is_seed(self, node: ast.Call) -> bool:
        """Whether a call seeds Python's generator with a number that is in the code."""
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="seed"), args=[ast.Constant(value=int())]):
                return self._modules.get(name) == "random"
        return False


def _kind(module: str, name: str) -> str:
    kind, names = _MODULES.get(module, ("", frozenset()))
    # `random.Random(0)` is a generator with a seed; `Random()` without one counts in `_of_node`.
    if module == "random" and name in ("seed", "Random"):
        return ""
    if not names or name in names or name == "*":
        return kind
    return ""


_MOST_BYTES = 64 << 20
"""A larger file of the user's counts by its stamp, too."""
_OURS = tuple(f"{PACKAGES / each}{os.sep}" for each in ("cli", "inspector", "reports", "ctrace"))
_SYSTEM = ("/usr/", "/lib", "/bin/", "/sbin/", "/etc/", "/opt/")
_DEVICES = ("/dev/", "/sys/", "/proc/")
_MEMORY = "/dev/shm/"
_CACHED_CODE = "__pycache__"
_UNCHECKED = 1
"""The flags of a compiled file that Python uses whatever its source says (PEP 552)."""
_SUFFIXES = tuple(importlib.machinery.all_suffixes())
_METADATA = (".dist-info", ".egg-info", ".egg", ".egg-link", ".pth")
_CACHE_FOLDERS = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
_SHELL = ("_", "SHLVL", "OLDPWD", "CTRACE_DIR")
"""Variables that a shell or ctrace changes; they count only if a program asks for them by name."""
_READS_VARIABLES = (b"environ", b"getenv", b"expandvars", b"expanduser")
_TOOLS = frozenset(
    ("ldconfig", "ldconfig.real", "uname", "lscpu", "gcc", "g++", "cc", "c++", "clang", "clang++", "cc1", "cc1plus",
     "as", "ld", "ld.bfd", "ld.gold", "ld.lld", "collect2", "ptxas", "ptxas-blackwell", "nvdisasm", "cuobjdump")
)  # fmt: skip
"""Programs whose results follow from the files that they read, which are seen, and from variables."""


_PREFIXED = ("torch", "triton", "numpy", "numpy.libs", "scipy", "scipy.libs", "nvidia")
"""Packages with large native libraries, whose variables have the prefixes in `circumstances.py`."""
_RUST = b"/rustc/"
"""What every library that Rust built names: the place of its own sources."""


class ObservedAnswers(Struct, frozen=True):
    """What the kernel saw; see `processes/system_calls.py:Questions`."""

    looked: Mapping[str, str] = field(default_factory=dict)
    read: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    listed: Mapping[str, tuple[int, tuple[str, ...]]] = field(default_factory=dict)
    ran: tuple[str, ...] = ()
    connected: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    hidden: str = ""


class Answers(Struct, frozen=True):
    """The questions of one run, grouped by folder, with their answers."""

    looked: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """For each folder, the names that were looked for in it, and what was there; see `system_calls.answer`."""
    stamps: Mapping[str, tuple[tuple[str, ...], str]] = field(default_factory=dict)
    """For each folder, files that were read, and a digest of their identities; see `system_calls.stamp`."""
    listed: Mapping[str, str] = field(default_factory=dict)
    """Digests of listings that count as a whole."""
    modules: Mapping[str, tuple[tuple[str, ...], str]] = field(default_factory=dict)
    """For each folder, the names of modules that were looked for in it, and a digest of those that were there."""
    packages: Mapping[str, str] = field(default_factory=dict)
    """For each folder whose packages were listed, a digest of their metadata's names."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """A keyed digest of each environment variable, so that no value is on disk."""
    asked: tuple[str, ...] = ()
    """The variables that were read."""
    all_asked: bool = False
    """Whether any variable may have been read."""
    native: tuple[str, ...] = ()
    """Native libraries, which read variables unseen."""


class NotReusableError(Exception):
    """The result of a run must not be reused; the message says why."""


def _decoded(observed: str) -> ObservedAnswers:
    """Decode what the kernel saw of a run.

    Raises:
        NotReusableError: that is not known.
    """
    if not observed:
        raise NotReusableError("ctrace cannot see here which files it looks for")
    found = msgspec.json.decode(observed, type=ObservedAnswers)
    if found.hidden:
        raise NotReusableError(f"ctrace cannot see all that it asks: {found.hidden}")
    return found


def answers_of(asked: Asked, observed: str, files: Mapping[str, str], *folders: Path) -> tuple[dict[str, str], Answers]:
    """Return the digests of the user's files that a run read, and its other questions with their answers.

    Args:
        asked: what the program asked Python.
        observed: what the kernel saw, as JSON.
        files: digests that are known already, empty for a file that changed or is large.
        folders: those in which ctrace keeps runs, which are not the program's.

    Raises:
        NotReusableError: the result of the run must not be reused.
        OSError: a file is gone.
    """
    # Resolved as well, since the kernel reports the paths that links lead to.
    own = [*folders, *(folder.resolve() for folder in folders), *_caches_of_torch()]
    ours = (*_OURS, *(f"{each.absolute()}{os.sep}" for each in own))
    collected = _Collected(asked, _decoded(observed), ours)
    collected.refuse_deeds()
    digests = collected.digests(files)
    for path in digests:
        if found := unrepeatable(Path(path)):
            raise NotReusableError(f"{_named(path)}:{found[0]} {found[1]}")
    return digests, collected.answers(any(map(_reads_variables, digests)))


def is_current(answers: Answers) -> bool:
    """Whether all questions have the same answers now."""
    # Cheapest first: to look for a file is one call, to compare listings reads folders.
    if any(_looked(folder, name) != found for folder, names in answers.looked.items() for name, found in names.items()):
        return False
    return (
        all(_stamps(folder, names) == digest for folder, (names, digest) in answers.stamps.items())
        and all(_listing(folder) == digest for folder, digest in answers.listed.items())
        and all(_modules(folder, names) == digest for folder, (names, digest) in answers.modules.items())
        and all(_packages(folder) == digest for folder, digest in answers.packages.items())
        and _has_same_variables(answers)
    )


def are_unchanged(files: Mapping[str, str]) -> bool:
    """Whether files still have these digests.

    Raises:
        OSError: a file is gone.
        ValueError: a file is no longer a regular file.
    """
    return all(file_digest(Path(path)) == digest for path, digest in files.items())


def forget_answers() -> None:
    """Look again at what was looked up once for all runs."""
    for each in (_answer, _stamp, _listing, _names, _entries, _variables, _mentions):
        each.cache_clear()


class _Collected:
    """The questions of one run, before they are grouped."""

    def __init__(self, asked: Asked, observed: ObservedAnswers, ours: tuple[str, ...]) -> None:
        self._asked = asked
        self._observed = observed
        self._ours = ours
        self._libraries = (*asked.prefixes, *_SYSTEM)

    def refuse_deeds(self) -> None:
        """Refuse what nobody can ask again.

        Raises:
            NotReusableError: the program did such a thing.
        """
        ran = [each for each in self._observed.ran if not self._is_tool(each)]
        # Python says where in the code a process was started, the kernel which one: a known tool is no reason to
        # refuse.
        for deed, (file, line) in self._asked.deeds.items():
            if deed != "starts a process" or ran or not self._observed.ran:
                raise NotReusableError(f"{_named(file)}:{line} {deed}")
        if ran:
            raise NotReusableError(f"it starts a process: {ran[0]}")
        if self._observed.connected:
            raise NotReusableError(f"it connects to {self._observed.connected[0]}")
        # Its next run would read what this one wrote.
        for path in self._observed.written:
            if path in self._observed.read and not path.startswith(self._ours):
                raise NotReusableError(f"it reads and writes {_named(path)}")

    def digests(self, known: Mapping[str, str]) -> dict[str, str]:
        """Return digests of the user's files: those that are known, and those that only the kernel saw.

        Raises:
            NotReusableError: a file changed while the program ran.
            OSError: a file is gone.
        """
        found = dict(known)
        for path, before in self._observed.read.items():
            if self._is_ignored(path) or _is_device(path):
                continue
            if self._has_changed(path, before):
                raise NotReusableError(f"{_named(path)} changed while it ran")
            if self._counts_by_stamp(path, before):
                # It counts by its stamp, so a digest that is known of it must not count as well.
                found.pop(path, None)
            elif path not in found:
                found[path] = file_digest(Path(path))
        if changed := [path for path, digest in found.items() if not digest]:
            raise NotReusableError(f"{_named(changed[0])} changed while it ran, or is too large")
        return found

    def answers(self, reads_variables: bool) -> Answers:
        """Return the questions with their answers.

        Raises:
            NotReusableError: an answer changed while the program ran.
        """
        looked = {path: found for path, found in self._observed.looked.items() if not self._is_ignored(path)}
        for path, found in looked.items():
            # What was seen is compared with what is there now: in between, somebody may have changed it.
            if answer(path) != found:
                raise NotReusableError(f"{_named(path)} changed while it ran")
        modules = {folder: names for folder, names in self._asked.modules.items() if not self._is_ours(folder)}
        return Answers(
            looked=_grouped(looked),
            stamps={folder: (names, _stamps(folder, names)) for folder, names in self._by_stamp().items()},
            listed=dict(self._listed()),
            modules={folder: (names, _modules(folder, names)) for folder, names in modules.items()},
            packages={folder: _packages(folder) for folder in self._asked.listed_for_packages},
            variables=_variables(),
            asked=self._asked.variables,
            # A process that the program starts may read any variable.
            all_asked=self._asked.all_variables or reads_variables or bool(self._observed.ran),
            native=tuple(sorted(self._native())),
        )

    def _by_stamp(self) -> dict[str, tuple[str, ...]]:
        """Return the files that count by their stamps, by folder."""
        found = {folder: dict.fromkeys(names) for folder, names in self._asked.libraries.items()}
        for path, before in self._observed.read.items():
            if self._is_ignored(path) or _is_device(path):
                continue
            if self._counts_by_stamp(path, before):
                folder, _, name = path.rpartition("/")
                found.setdefault(folder, {})[name] = None
        return {folder: tuple(names) for folder, names in found.items()}

    def _listed(self) -> Iterator[tuple[str, str]]:
        """Yield the folders whose whole listing counts, with its digest.

        Raises:
            NotReusableError: what the program saw of a listing changed while it ran.
        """
        for folder, (number, entries) in self._observed.listed.items():
            if self._is_ours(folder) or _is_device(folder):
                continue
            names = sorted(each.rpartition("/")[0] for each in entries)
            modules = self._asked.modules.get(folder, ())
            of_python = self._asked.listed_by_import.get(folder, 0) + self._asked.listed_for_packages.get(folder, 0)
            # More listings than Python's import and importlib.metadata made: the program looked itself, at all names.
            if number > of_python:
                is_same = _digest(entries) == _listing(folder)
            else:
                is_same = _modules_in(_stems(names), modules) == _modules(folder, modules) and (
                    folder not in self._asked.listed_for_packages or _packages_in(names) == _packages(folder)
                )
            if not is_same:
                raise NotReusableError(f"files in {_named(folder)} came or went while it ran")
            if number > of_python:
                yield folder, _listing(folder)

    def _native(self) -> Iterator[str]:
        for folder, names in self._asked.libraries.items():
            if not any(f"{os.sep}{each}{os.sep}" in f"{folder}{os.sep}" for each in _PREFIXED):
                yield from (f"{folder}/{name}" for name in names if ".so" in name)
        yield from (path for path in self._observed.read if ".so" in os.path.basename(path))  # noqa: PTH119

    def _has_changed(self, path: str, before: tuple[int, ...]) -> bool:
        """Whether a file changed while the program ran.

        A library's may get another hard link, which changes its ctime: installers share files among environments.
        """
        now = tuple(stamp(path))
        return now != before and not (path.startswith(self._asked.prefixes) and _linked(now) == _linked(before))

    def _counts_by_stamp(self, path: str, before: tuple[int, ...]) -> bool:
        is_memory = path.startswith(_MEMORY)
        # Shared memory is below /dev, but holds the program's data.
        return (path.startswith(self._libraries) and not is_memory) or not before or before[0] > _MOST_BYTES

    def _is_ignored(self, path: str) -> bool:
        """Whether what is at a path decides nothing: it is ctrace's, or code that Python compiled from a source."""
        is_library = path.startswith(self._libraries)
        # A library's compiled code follows from its files, which count by their stamps.
        return self._is_ours(path) or (_CACHED_CODE in path if is_library else _is_compiled(path))

    def _is_ours(self, path: str) -> bool:
        return f"{path}{os.sep}".startswith(self._ours)

    def _is_tool(self, path: str) -> bool:
        return os.path.basename(path) in _TOOLS and path.startswith(self._libraries)  # noqa: PTH119


def _caches_of_torch() -> Iterator[Path]:
    """Yield the folders of torch's and Triton's caches, which captures make but do not read.

    The default is that of torch/_inductor/runtime/cache_dir_utils.py (2.11 to 2.15).
    """
    yield from (Path(os.environ[name]).absolute() for name in _CACHE_FOLDERS if os.environ.get(name))
    with suppress(OSError, KeyError):  # a user without a name
        user = re.sub(r'[\\/:*?"<>|]', "_", getpass.getuser())
        yield Path(tempfile.gettempdir(), f"torchinductor_{user}")


def _linked(of_file: tuple[int, ...]) -> tuple[int, ...]:
    """Return what links leave of a stamp: size, time of the last write, inode."""
    return (*of_file[:2], *of_file[3:])


def _is_compiled(path: str) -> bool:
    """Whether Python keeps at a path what it compiles from a source, with which it compares it; or the folder of such
    files. Some that Python is writing have a number at the end of their names."""
    if sys.pycache_prefix and f"{path}{os.sep}".startswith(f"{sys.pycache_prefix}{os.sep}"):
        return True
    folder, name = os.path.split(path)
    if name == _CACHED_CODE or not folder.endswith(f"{os.sep}{_CACHED_CODE}"):
        return name == _CACHED_CODE
    try:
        source = importlib.util.source_from_cache(re.sub(r"\.\d+$", "", path))
    except ValueError:  # another file that somebody keeps there
        return False
    return os.path.exists(source) and not _is_unchecked(path)  # noqa: PTH110


def _is_unchecked(path: str) -> bool:
    """Whether Python runs a compiled file without a look at its source."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            return int.from_bytes(file.read(8)[4:], "little") == _UNCHECKED
    except OSError:  # there is none yet
        return False


def _is_device(path: str) -> bool:
    """Whether a path belongs to the system's devices, which have no contents to compare."""
    return path.startswith(_DEVICES) and not path.startswith(_MEMORY)


def _named(path: str) -> str:
    """Return a path relative to the working directory, if it is below it."""
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except ValueError:
        return path


def _grouped(found: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    groups: dict[str, dict[str, Any]] = {}
    for path, value in found.items():
        folder, _, name = path.rpartition("/")
        groups.setdefault(folder, {})[name] = value
    return groups


def _looked(folder: str, name: str) -> str:
    return _answer(f"{folder}/{name}")


_answer = cache(answer)


@cache
def _listing(folder: str) -> str:
    return _digest(listing(folder))


@cache
def _stamp(path: str) -> tuple[int, ...]:
    return tuple(stamp(path))


def _stamps(folder: str, names: Iterable[str]) -> str:
    return _digest([_stamp(f"{folder}/{name}") for name in names])


@cache
def _names(folder: str) -> tuple[str, ...]:
    try:
        return tuple(sorted(os.listdir(folder)))  # noqa: PTH208 - thousands
    except OSError:
        return ()


@cache
def _entries(folder: str) -> Mapping[str, tuple[str, ...]]:
    return _stems(_names(folder))


def _stems(names: Iterable[str]) -> Mapping[str, tuple[str, ...]]:
    """Return the entries of a folder that could be modules, by the module's name."""
    found: dict[str, tuple[str, ...]] = {}
    for each in names:
        # A name without a suffix may be a package; files such as `data.csv` are no modules.
        if "." not in each or each.endswith(_SUFFIXES):
            stem = each.partition(".")[0]
            found[stem] = (*found.get(stem, ()), each)
    return found


def _modules(folder: str, names: Iterable[str]) -> str:
    """Return a digest of what a folder has of these modules."""
    return _modules_in(_entries(folder), names)


def _modules_in(entries: Mapping[str, tuple[str, ...]], names: Iterable[str]) -> str:
    return _digest([entries[name] for name in names if name in entries])


def _packages(folder: str) -> str:
    """Return a digest of the packages whose metadata a folder has."""
    return _packages_in(_names(folder))


def _packages_in(names: Iterable[str]) -> str:
    return _digest([each for each in names if each.endswith(_METADATA)])


def _digest(data: Any) -> str:
    return hashlib.sha256(json.dumps(data).encode()).hexdigest()[:32]


def _reads_variables(path: str) -> bool:
    """Whether a file is Python code that may read environment variables."""
    if not path.endswith(".py"):
        return False
    text = Path(path).read_bytes()
    return any(each in text for each in _READS_VARIABLES)


@cache
def _variables() -> Mapping[str, str]:
    return {name: provenance.proof_of(f"{name}={value}")[:32] for name, value in os.environ.items()}


def _has_same_variables(answers: Answers) -> bool:
    """Whether no variable changed that the run may have read."""
    before, now = answers.variables, _variables()
    changed = {name for name in {*before, *now} if before.get(name) != now.get(name)}
    if not changed.isdisjoint(answers.asked):
        return False
    changed.difference_update(_SHELL)
    if answers.all_asked and changed:
        return False
    return not any(_mentions(path, name) for name in changed for path in answers.native)


@cache
def _mentions(path: str, name: str) -> bool:
    """Whether a native library has a variable's name, at the end of a text; texts of Rust have no end."""
    text = name.encode("utf-8", "surrogateescape")
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:  # noqa: PTH123
            # A C library ends the names that it passes to getenv with a NUL, so a longer name does not count.
            return data.find(text + b"\0") >= 0 or (data.find(_RUST) >= 0 and data.find(text) >= 0)
    except (OSError, ValueError):  # it is gone, or empty
        return True

"""Find code of the user's that asks what neither the kernel nor Python reports: the clock, chance, the machine's load.

Nobody can ask these questions again, so the result of such a model is not reused. This module parses the code and never
runs it. In doubt it counts: a needless run costs seconds.
"""

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

_CLOCK = "reads the clock"
_CHANCE = "draws random numbers without a seed"
_CORES = "asks for cores or threads, which depend on the other models of the check"
_LOAD = "asks how much memory or disk is free"
_TIMES = "asks for a file's time or identity"
_PROCESS = "asks for the number of a process"
_FINDERS = "looks for modules in a way that ctrace cannot follow"
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
    if module == "random" and name in ("seed", "Random"):
        return ""
    return kind if not names or name in names or name == "*" else ""

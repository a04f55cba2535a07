"""A kernel package on disk: find it and read what it says about itself, show how to use it, and watch its files.

Its `ctrace.json` is data; its code runs later. A program uses a package without ctrace: by one import and `install()`,
or by the operator in the model's code (`diffs_of`). While the user edits, its files are watched (`next_change`), and
one check is compared with the one before.
"""

import ast
import difflib
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from ctrace.inspector.errors import TargetError, did_you_mean
from ctrace.inspector.features.workshop.package_model import AppliedPackage, CheckedPackage, ExpectedPlace
from ctrace.inspector.files.typed_json import read_object
from ctrace.inspector.runs.target import ModelTarget

FACTS = "ctrace.json"
KERNELS = "kernel.py"


class KernelPackage(Struct, frozen=True):
    """A package that `ctrace kernels eject` wrote."""

    folder: Path
    """The folder with `__init__.py`."""
    facts: Mapping[str, Any]
    """What `ctrace.json` says; untrusted."""

    @property
    def name(self) -> str:
        """The name to import."""
        return self.folder.name

    @property
    def root(self) -> Path:
        """The folder to put on `sys.path`."""
        return self.folder.absolute().parent

    def files(self) -> Iterator[Path]:
        """Yield its Python files."""
        yield from sorted(self.folder.glob("*.py"))

    def watched(self) -> Iterator[Path]:
        """Yield the files whose changes matter: Python, and the source of a kernel in C++."""
        yield from (*self.files(), *sorted(self.folder.glob("*.cpp")))


def packages_in(folder: str) -> tuple[KernelPackage, ...]:
    """Read the packages in a folder, or the package that the folder is.

    Raises:
        TargetError: there is none, or one of its files cannot be read or parsed.
    """
    return tuple(map(package_at, found_in(folder)))


def found_in(folder: str) -> list[Path]:
    """Find the folders of the packages in a folder, or the folder itself.

    Raises:
        TargetError: there is none.
    """
    path = Path(folder)
    try:
        if path.is_file():
            raise TargetError(f"{folder} is a file", "name the folder that ctrace kernels eject -o wrote")
        if not path.is_dir():
            near = did_you_mean(path.name, _folders(path.parent), "name the folder that ctrace kernels eject -o wrote")
            raise TargetError(f"there is no folder {folder}", near)
        if (path / FACTS).is_file():
            found = [path]
        else:
            # One level below, as `ctrace kernels eject -o` writes them.
            found = sorted(each.parent for each in path.glob(f"*/{FACTS}"))
    except (OSError, ValueError) as error:
        raise TargetError(f"{folder} cannot be read: {error}", "name a folder") from None
    if not found:
        what = f"{folder} has no kernel package: there is no {FACTS} in it or one level below"
        raise TargetError(what, f"write one: ctrace kernels eject NAME -o {folder}")
    return found


def package_at(folder: Path) -> KernelPackage:
    """Read the package in a folder.

    Raises:
        TargetError: one of its files cannot be read or parsed.
    """
    package = KernelPackage(folder, _facts(folder / FACTS))
    check_parses(package)
    return package


def bare_package(folder: Path) -> KernelPackage:
    """Return a package of which only the files matter, whatever they contain."""
    return KernelPackage(folder, {})


def _folders(parent: Path) -> list[str]:
    if parent.is_dir():
        return [each.name for each in parent.iterdir() if each.is_dir()]
    return []


def _facts(file: Path) -> dict[str, Any]:
    try:
        return read_object(file)
    except (OSError, ValueError) as error:
        what = f"{file} cannot be read: {error}"
        raise TargetError(what, "restore it, or eject the kernel again into an empty folder") from None


def check_parses(package: KernelPackage) -> None:
    """Refuse a package that Python cannot read.

    Raises:
        TargetError: one of its files does not parse, or `__init__.py` is missing.
    """
    if not (package.folder / "__init__.py").is_file():
        raise TargetError(f"{package.folder} has no __init__.py", "eject the kernel again into an empty folder")
    for file in package.files():
        try:
            ast.parse(file.read_text(encoding="utf-8"), str(file))
        except (SyntaxError, ValueError) as error:
            line = getattr(error, "lineno", None)
            if line:
                where = f"{file}, line {line}"
            else:
                where = str(file)
            what = f"{where}: {getattr(error, 'msg', error)}"
            raise TargetError(what, "correct the file; Python cannot read it") from None
        except OSError as error:
            raise TargetError(f"{file} cannot be read: {error.strerror}", "check the file's permissions") from None


def diffs_of(packages: Sequence[KernelPackage], target: ModelTarget, found: AppliedPackage) -> tuple[str, ...]:
    """Return how to use the packages: a diff that installs them, and for each where the model's code can call it.

    The call is no diff: its arguments are values of the graph, which need no name in the model's code. For a model that
    is named by its module, the diff is of a file `package_model.py`.
    """
    path = target.path or Path("model.py")
    try:
        lines = []
        if target.path is not None:
            lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        lines = []
    installed = _with_install(packages, path, lines)
    made = difflib.unified_diff(lines, installed, str(path), str(path), lineterm="", n=1)
    ways = ["\n".join(["# 1. install the replacement once, before torch.compile", *made])]
    for package in packages:
        called = list(_call(package, path, lines, [each for each in found.places if _is_of(package, each)]))
        if called:
            ways.append("\n".join(called))
    return tuple(ways)


def _is_of(package: KernelPackage, place: ExpectedPlace) -> bool:
    return place.operator.rpartition("::")[2] == _operator(package)[0]


def _with_install(packages: Sequence[KernelPackage], path: Path, lines: list[str]) -> list[str]:
    at = _after_imports(lines)
    # Several packages in one folder need its line for sys.path only once.
    imports = dict.fromkeys(line for each in packages for line in _imports(each, path))
    return [*lines[:at], *imports, *(f"{each.name}.install()" for each in packages), *lines[at:]]


def _imports(package: KernelPackage, path: Path) -> Iterator[str]:
    """Yield the lines that import a package in the model's file: Python looks for modules in the folder of a script."""
    folder, beside = package.root.resolve(), path.absolute().parent.resolve()
    parts = None
    if folder.is_relative_to(beside):
        parts = folder.relative_to(beside).parts
    if parts is not None and all(map(str.isidentifier, parts)):
        yield f"from {'.'.join(parts)} import {package.name}" if parts else f"import {package.name}"
        return
    yield "import sys"
    yield f"sys.path.insert(0, {str(folder)!r})"
    yield f"import {package.name}"


def _after_imports(lines: list[str]) -> int:
    """Return the index behind the last import at the top of a file."""
    try:
        tree = ast.parse("\n".join(lines))
    except SyntaxError:
        return 0
    ends = [each.end_lineno or 0 for each in tree.body if isinstance(each, ast.Import | ast.ImportFrom)]
    return max(ends, default=0)


def _call(package: KernelPackage, path: Path, lines: list[str], places: Iterable[ExpectedPlace]) -> Iterator[str]:
    """Yield which lines of the file the operator computes a part of, and how to call it; nothing if it has no place."""
    numbers = sorted({number for each in places if (number := _line_in(path, each)) is not None})
    function, arguments = _operator(package)
    if not numbers or not function:
        return
    yield f"# 2. or call it in the model's code: {package.name}.{function}({arguments}) computes a part of"
    for number in numbers:
        if number <= len(lines):
            yield f"#      {path.name}:{number}: {lines[number - 1].strip()}"
    yield "#    Its arguments are values of the graph, and your code may have no name for them; their dtypes and sizes"
    yield f"#    are in {package.folder / _README}."


_README = "README.md"


def _line_in(path: Path, place: ExpectedPlace) -> int | None:
    file, _, line = (place.line or "").rpartition(":")
    # By the name alone: the log may have been written in another folder, with a path from there.
    if place.applied and line.isdigit() and Path(file).name == path.name:
        return int(line)
    return None


def _operator(package: KernelPackage) -> tuple[str, str]:
    """Return the name and the arguments of the package's operator, read from its source."""
    for file in package.files():
        try:
            tree = ast.parse(file.read_text(encoding="utf-8"))
        except (OSError, SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and any(map(_makes_operator, node.decorator_list)):
                return node.name, ", ".join(each.arg for each in node.args.args)
    return "", ""


def _makes_operator(decorator: ast.expr) -> bool:
    return any(name in ast.unparse(decorator) for name in ("triton_op", "custom_op"))


# Chosen: below what a person notices between saving a file and its check.
POLL_SECONDS = 0.3
_NOISE = 0.03
"""Times of two checks that differ by less are called equal: each is the median of many launches of one process."""
_PLACES = re.compile(r"^\s*(?:#loc\d*\b.*|\.loc\s.*|\.file\s.*|//.*)$|\s+loc\((?:[^()]|\([^()]*\))*\)", re.MULTILINE)
"""Lines and file names in compiled code, which change with every edit."""
_NUMBERED = re.compile(r"(%[A-Za-z][A-Za-z_]*)_\d+\b")
"""A value of Triton's intermediate code: one more or less renumbers all that follow."""
_DEBUG = re.compile(r"^\s*\.section\s", re.MULTILINE)
"""Where PTX ends and its debug information begins."""

Stamp = Mapping[Path, tuple[int, int]]


def stamp_of(package: KernelPackage) -> Stamp:
    """Return time and size of each file; a file that an editor is just replacing is missing for a moment."""
    found = {}
    for file in package.watched():
        try:
            status = file.stat()
        except OSError:
            continue
        found[file] = status.st_mtime_ns, status.st_size
    return found


def changed(before: Stamp, after: Stamp) -> tuple[str, ...]:
    """Return the names of the files that differ."""
    return tuple(sorted({file.name for file in {*before, *after} if before.get(file) != after.get(file)}))


def next_change(
    package: KernelPackage, before: Stamp, idle: Callable[[], None] = lambda: None, seconds: float = POLL_SECONDS
) -> Stamp:
    """Wait until a file changes and stays the same for one poll; return the new stamp."""
    while True:
        time.sleep(seconds)
        idle()
        after = stamp_of(package)
        if after == before:
            continue
        time.sleep(seconds)
        if stamp_of(package) == after:  # the editor has finished writing
            return after


def speed(before: CheckedPackage | None, after: CheckedPackage) -> str:
    """Say whether the kernel became faster, over all sizes."""
    now = {each.sizes: each.seconds for each in after.checks if each.seconds is not None}
    if not now:
        if after.untimed:
            return f"time not measured: {after.untimed}"
        return "time not measured"
    text = ", ".join(f"{seconds * 1e6:.3g} us" for seconds in now.values())
    was = {}
    if before is not None:
        was = {each.sizes: each.seconds for each in before.checks if each.seconds is not None}
    both = [name for name in now if name in was]
    if not both:
        return text
    ratio = 1.0
    # The geometric mean: twice as fast for one size and half as fast for another is as fast as before.
    for name in both:
        ratio *= (was[name] or 1.0) / (now[name] or 1.0)
    ratio **= 1 / len(both)
    if abs(ratio - 1) < _NOISE:
        return f"{text}: as fast as before"
    if ratio > 1:
        return f"{text}: {ratio:.2f}x faster"
    return f"{text}: {1 / ratio:.2f}x slower"


def code_diffs(before: CheckedPackage | None, after: CheckedPackage) -> list[str]:
    """Return, for each stage of each kernel, what changed in the compiled code; names of places do not count."""
    diffs = []
    for operator, stages in after.code.items():
        old: Mapping[str, str] = {}
        if before is not None:
            old = before.code.get(operator, {})
        for stage, text in stages.items():
            if stage in old:
                diffs.append(_diff(operator, stage, old[stage], text))
    return diffs


def _lines(text: str, stage: str) -> list[str]:
    """Return the lines of code to compare, without places, debug information and the numbers of values."""
    bare = _PLACES.sub("", _DEBUG.split(text)[0])
    # Only these stages number values like this: registers of PTX are `%r12`.
    if stage in ("ttir", "ttgir"):
        bare = _NUMBERED.sub(r"\1", bare)
    return [line.rstrip() for line in bare.splitlines() if line.strip()]


def _diff(operator: str, stage: str, before: str, after: str) -> str:
    one, other = (_lines(text, stage) for text in (before, after))
    made = list(difflib.unified_diff(one, other, f"{stage} before", f"{stage} now", lineterm="", n=2))
    if made:
        return "\n".join([f"# {operator}", *made])
    return f"# {operator}: {stage} is the same"

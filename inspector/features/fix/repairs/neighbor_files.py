"""What other files of a project do with what a change of one file touches.

A helper in `ops.py` may get tensors from the model, and arrays from `metrics.py`; a class in another file may derive
from the changed one, and a script may set to None what its methods read. The lines of files that the target
loads must run in the proof; those of others are asked about.

They are read as one text with the changed file: what reading finds there and does not find in the file alone is theirs.
Reads Python without running it.
"""

import ast
import os
import re
from collections.abc import Collection, Iterator
from functools import lru_cache
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.facts.trial import Condition
from ctrace.inspector.features.fix.repairs.mining import writers
from ctrace.inspector.source.attribute_writes import FUNCTIONS
from ctrace.inspector.source.open_questions import open_questions
from ctrace.inspector.source.text import parsed

_NOT_OF_PROJECT = frozenset(("site-packages", "node_modules", "__pycache__", "build", "dist"))
_MOST_FILES = 500
_DEEPEST = 4
"""Folders below the one of the project that are looked at."""
_MOST_NEIGHBORS = 20
_MOST_CHARACTERS = 400_000
_LINE = re.compile(r"\b([Ll])ine (\d+)")


class NeighborReading(Struct, frozen=True):
    """What other files of a project do with what a change touches."""

    asked: tuple[str, ...] = ()
    lines: tuple[Condition, ...] = ()
    """Lines that must run in the proof, or are asked about where the target does not load their file."""

    def must_run(self, loaded: Collection[str]) -> tuple[Condition, ...]:
        """Return the lines of files that a target has loaded."""
        return tuple(each for each in self.lines if each.file in loaded)

    def questions(self, loaded: Collection[str]) -> tuple[str, ...]:
        """Return the questions, with one about each line of a file that the target has not loaded."""
        others = [each for each in self.lines if each.file not in loaded]
        return (*self.asked, *(_UNTRIED.format(each.line, Path(each.file).name) for each in others))


_UNTRIED = (
    "Does the repair change nothing for line {} of {}? It writes what the changed lines read, or calls what they "
    "change, and is not tried."
)


class _Joined(Struct, frozen=True):
    """The text of files that use a file, and where each of them begins."""

    text: str
    begins: tuple[tuple[int, str], ...]

    def place(self, line: int) -> tuple[str, int]:
        """Return the file and the line there of a line below the changed file's, from 1."""
        begin, file = max(each for each in self.begins if each[0] < line)
        return file, line - begin


def read_neighbors(file: str, before: str, after: str) -> NeighborReading:
    """Read what only other files of the project of a file do with a change of it."""
    joined = _neighbors(file)
    if not joined.text or before == after:
        return NeighborReading()
    old, new = (_ended(text) for text in (before, after))
    first = old.count("\n")
    together = old + joined.text, new + joined.text
    alone = set(open_questions(before, after))
    theirs = [each for each in open_questions(*together) if each not in alone]
    asked = [_LINE.sub(lambda found: _renamed(found, joined, first), each) for each in theirs]
    lines = [
        replace(each, file=joined.place(each.line - first)[0], line=joined.place(each.line - first)[1])
        for each in writers(file, *together)
        if each.line > first
    ]
    return NeighborReading(tuple(dict.fromkeys(asked)), tuple(dict.fromkeys(lines)))


def neighbors_of(file: str) -> tuple[str, ...]:
    """Return the files of a project, as they are now, that a reading of a file takes in."""
    return tuple(name for _, name in _neighbors.__wrapped__(file).begins)


def _renamed(found: re.Match[str], joined: _Joined, first: int) -> str:
    line = int(found[2])
    if line <= first:
        return found[0]
    file, own = joined.place(line - first)
    return f"{found[1]}ine {own} of {Path(file).name}"


def _ended(text: str) -> str:
    return text if text.endswith("\n") else f"{text}\n"


@lru_cache(maxsize=64)
def _neighbors(file: str) -> _Joined:
    """Return the files of a project that import a file, or that it imports."""
    path = Path(file)
    own = parsed(_read(path))
    found: list[tuple[str, str]] = []
    for other in _files_of_project(path) if own is not None else ():
        text = "" if other == path else _read(other)
        tree = parsed(text)
        if own is None or tree is None or not text or len(found) >= _MOST_NEIGHBORS:
            continue
        if _imports(tree, path.stem, _defined(own)) or _imports(own, other.stem, _defined(tree)):
            found.append((str(other), _without_module(tree, text, path.stem)))
    parts: list[str] = []
    begins: list[tuple[int, str]] = []
    line = 0
    for name, text in found:
        if sum(map(len, parts)) + len(text) > _MOST_CHARACTERS:
            break
        begins.append((line, name))
        parts.append(_ended(text))
        line += parts[-1].count("\n")
    return _Joined("".join(parts), tuple(begins))


def _read(path: Path) -> str:
    """Return a file's text; empty: it cannot be read, so it is no module either."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return ""


def _files_of_project(path: Path) -> Iterator[Path]:
    """Yield the Python files around a file: below the folder that its outermost package lies in."""
    top = path.parent
    while (top / "__init__.py").exists() and top.parent != top:
        top = top.parent
    number = 0
    for folder, below, names in os.walk(top):
        is_deep = len(Path(folder).relative_to(top).parts) >= _DEEPEST
        kept = [] if is_deep else [each for each in below if _is_of_project(Path(folder) / each)]
        below[:] = sorted(kept)
        for name in sorted(names):
            if name.endswith(".py"):
                yield Path(folder) / name
                number += 1
        if number >= _MOST_FILES:
            return


def _is_of_project(folder: Path) -> bool:
    is_hidden = folder.name.startswith(".") or folder.name in _NOT_OF_PROJECT
    return not is_hidden and not (folder / "pyvenv.cfg").exists()


def _defined(tree: ast.Module) -> frozenset[str]:
    return frozenset(each.name for each in tree.body if isinstance(each, (*FUNCTIONS, ast.ClassDef)))


def _imports(tree: ast.Module, module: str, names: frozenset[str]) -> bool:
    """Whether a file imports a module, by the last part of its name, or names that it defines."""
    for each in ast.walk(tree):
        if isinstance(each, ast.Import) and any(one.name.rpartition(".")[2] == module for one in each.names):
            return True
        if isinstance(each, ast.ImportFrom):
            imported = {one.name for one in each.names}
            if (each.module or "").rpartition(".")[2] == module or module in imported:
                return True
            if names & imported and (each.level or (each.module or "").partition(".")[0] not in ("torch", "numpy")):
                return True
    return False


def _without_module(tree: ast.Module, text: str, module: str) -> str:
    """Return a text in which the names of a module stand alone, as in the module: `ops.unit(x)` is `unit(x)`."""
    aliases = set()
    for each in ast.walk(tree):
        if isinstance(each, ast.Import | ast.ImportFrom):
            aliases |= {one.asname or one.name for one in each.names if one.name.rpartition(".")[2] == module}
    for alias in sorted(aliases, key=len, reverse=True):
        changed = re.sub(rf"\b{re.escape(alias)}\.(?=\w)", "", text)
        text = changed if parsed(changed) is not None else text
    return text

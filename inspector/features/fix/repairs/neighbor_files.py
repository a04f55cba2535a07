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
from ctrace.inspector.source.attribute_writes import FUNCTIONS, is_self
from ctrace.inspector.source.open_questions import open_questions
from ctrace.inspector.source.text import parsed, replaced_lines

_NOT_OF_PROJECT = frozenset(("site-packages", "node_modules", "__pycache__", "build", "dist"))
_MOST_FILES = 500
"""Files beside the model's that are read; beyond them, the rest is named as not read."""
_DEEPEST = 4
"""Folders below the one of the project that are looked at."""
_MOST_NAMED = 3
"""Files that a question names."""
_MOST_CHARACTERS = 120_000
"""Of files that are read whole: about 3,000 lines take a second."""
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
    left_out: tuple[str, ...] = ()
    """Files that are too long to be read as well."""

    def place(self, line: int) -> tuple[str, int]:
        """Return the file and the line there of a line below the changed file's, from 1."""
        begin, file = max(each for each in self.begins if each[0] < line)
        return file, line - begin


@lru_cache(maxsize=128)
def read_neighbors(file: str, before: str, after: str) -> NeighborReading:
    """Read what only other files of the project of a file do with a change of it."""
    joined = _joined(_neighbors(file), _words(before, after))
    if before == after or not (joined.text or joined.left_out):
        return NeighborReading()
    # Without a line end, the first line of the next file would be part of the last one here.
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
    if joined.left_out:
        names = ", ".join(Path(each).name for each in joined.left_out[:_MOST_NAMED])
        asked.append(
            f"Does the repair change nothing for {names}? Files that use what it changes are too long to be read."
        )
    return NeighborReading(tuple(dict.fromkeys(asked)), tuple(dict.fromkeys(lines)))


def _words(before: str, after: str) -> frozenset[str]:
    """Return the names by which other code gets to a change: classes and functions around it, and what it reads."""
    found: set[str] = set()
    for text, lines in ((before, replaced_lines(before, after)), (after, replaced_lines(after, before))):
        nodes = list(ast.walk(parsed(text) or ast.Module([], [])))
        called = {id(each.func) for each in nodes if isinstance(each, ast.Call)}
        for each in nodes:
            first, last = getattr(each, "lineno", 0), getattr(each, "end_lineno", 0)
            if isinstance(each, (*FUNCTIONS, ast.ClassDef)) and any(first <= line <= last for line in lines):
                found.add(each.name)
            elif isinstance(each, ast.Attribute) and each.lineno in lines:
                # `x.relu()` says nothing about other code, `self.helper()` does.
                is_method_of_other = id(each) in called and not is_self(each.value)
                if not is_method_of_other:
                    found.add(each.attr)
    return frozenset(each for each in found if not each.startswith("__")) - {"forward"}


def _joined(files: tuple[tuple[str, str], ...], words: frozenset[str]) -> _Joined:
    """Join the files that mention one of some names, the shortest first."""
    parts: list[str] = []
    begins: list[tuple[int, str]] = []
    left_out: list[str] = []
    line = size = 0
    name = re.compile(rf"\b({'|'.join(map(re.escape, sorted(words)))})\b")
    # The more files are read whole, the fewer the question names that were not.
    for file, text in sorted(files, key=lambda each: len(each[1])):
        if not words or not name.search(text):
            continue
        size += len(text)
        if size > _MOST_CHARACTERS:
            left_out.append(file)
            continue
        begins.append((line, file))
        parts.append(_ended(text))
        line += parts[-1].count("\n")
    return _Joined("".join(parts), tuple(begins), tuple(left_out))


def neighbors_of(file: str) -> tuple[str, ...]:
    """Return the files of a project, as they are now, that a reading of a file takes in."""
    # Past the cache: a file that uses this one may have come since the search read the folder.
    return tuple(name for name, _ in _neighbors.__wrapped__(file))


def _renamed(found: re.Match[str], joined: _Joined, first: int) -> str:
    line = int(found[2])
    if line <= first:
        return found[0]
    file, own = joined.place(line - first)
    return f"{found[1]}ine {own} of {Path(file).name}"


def _ended(text: str) -> str:
    if text.endswith("\n"):
        return text
    return f"{text}\n"


@lru_cache(maxsize=64)
def _neighbors(file: str) -> tuple[tuple[str, str], ...]:
    """Return the files of a project that import a file, or that it imports, with their texts."""
    path = Path(file)
    source = _read(path)
    own = parsed(source)
    found: list[tuple[str, str]] = []
    if own is None:
        return ()
    names = _defined(own)
    for other in _files_of_project(path):
        text = ""
        if other != path:
            text = _read(other)
        # Most files mention neither: to parse them all would take seconds.
        is_mentioned = other.stem in source or any(each in text for each in (path.stem, *names))
        tree = None
        if text and is_mentioned:
            tree = parsed(text)
        if tree is None:
            continue
        if _imports(tree, path.stem, names) or _imports(own, other.stem, _defined(tree)):
            found.append((str(other), _without_module(tree, text, path.stem)))
    return tuple(found)


def _read(path: Path) -> str:
    """Return a file's text; empty: it cannot be read, so it is no module either."""
    try:
        # A BOM is only allowed where a file begins, and these texts are joined.
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
        kept = []
        if not is_deep:
            kept = [each for each in below if _is_of_project(Path(folder) / each)]
        # os.walk descends into what is left in this list; sorted, the limit cuts alike on each file system.
        below[:] = sorted(kept)
        for name in sorted(names):
            if name.endswith(".py"):
                yield Path(folder) / name
                number += 1
        if number >= _MOST_FILES:
            return


def _is_of_project(folder: Path) -> bool:
    # A virtual environment may have any name; it always has this file (PEP 405).
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
            # A project that defines `where` is not used by `from torch import where`.
            if names & imported and (each.level or (each.module or "").partition(".")[0] not in ("torch", "numpy")):
                return True
    return False


def _without_module(tree: ast.Module, text: str, module: str) -> str:
    """Return a text in which the names of a module stand alone, as in the module: `ops.unit(x)` is `unit(x)`."""
    aliases = set()
    for each in ast.walk(tree):
        if isinstance(each, ast.Import | ast.ImportFrom):
            aliases |= {one.asname or one.name for one in each.names if one.name.rpartition(".")[2] == module}
    # The longest first: `ops` would leave `fast.f` of `ops.fast.f`.
    for alias in sorted(aliases, key=len, reverse=True):
        changed = re.sub(rf"\b{re.escape(alias)}\.(?=\w)", "", text)
        if parsed(changed) is not None:
            text = changed
    return text

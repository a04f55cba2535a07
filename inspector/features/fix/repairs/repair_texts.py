"""Texts of source files: merge changes that do not touch each other, and write them as a patch."""

import difflib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from ctrace.inspector.facts.trial import NewText


class _Hunk(Struct, frozen=True, order=True):
    """Lines of the base, from `begin` to before `end`, and what replaces them."""

    begin: int
    end: int
    lines: tuple[str, ...]


def merged(base: str, first: str, second: str) -> str | None:
    """Return a text with both changes of a base; None: they touch the same lines."""
    lines = base.splitlines(keepends=True)
    # A set: what both changes do alike, such as an added import, is done once.
    hunks = sorted({*_hunks(lines, first), *_hunks(lines, second)})
    made: list[str] = []
    at = 0
    last: _Hunk | None = None
    for hunk in hunks:
        if last is not None and hunk.begin < last.end:
            return None
        # Two insertions at one place, such as two settings, do not disturb each other.
        if last is not None and hunk.begin == last.begin and not hunk.begin == hunk.end == last.end:
            return None
        made += lines[at : hunk.begin]
        made += hunk.lines
        at, last = hunk.end, hunk
    return "".join([*made, *lines[at:]])


def _hunks(lines: list[str], text: str) -> Iterator[_Hunk]:
    other = text.splitlines(keepends=True)
    # autojunk would not match lines that are frequent in a long file, such as `return x`.
    for tag, begin, end, first, last in difflib.SequenceMatcher(None, lines, other, autojunk=False).get_opcodes():
        if tag != "equal":
            yield _Hunk(begin, end, tuple(other[first:last]))


def merged_files(
    base: Mapping[str, str], first: Iterable[NewText], second: Iterable[NewText]
) -> tuple[NewText, ...] | None:
    """Return the files with both changes; None: they touch the same lines of one."""
    found = {each.file: each.text for each in first}
    for each in second:
        text = found.get(each.file)
        both: str | None = each.text
        if text is not None:
            both = merged(base[each.file], text, each.text)
        if both is None:
            return None
        found[each.file] = both
    return tuple(NewText(file, text) for file, text in found.items())


def patch_of(base: Mapping[str, str], files: Iterable[NewText], folder: str) -> str:
    """Return a patch that `git apply` and `patch -p1` accept, with paths relative to a folder where possible."""
    return "".join(line for each in files for line in _diff(base[each.file], each.text, _shown(each.file, folder)))


def reversed_patch(base: Mapping[str, str], files: Iterable[NewText], folder: str) -> str:
    """Return the patch that takes a change back."""
    return "".join(line for each in files for line in _diff(each.text, base[each.file], _shown(each.file, folder)))


def _diff(before: str, after: str, name: str) -> Iterator[str]:
    old, new = (text.splitlines(keepends=True) for text in (before, after))
    for line in difflib.unified_diff(old, new, f"a/{name}", f"b/{name}"):
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _shown(file: str, folder: str) -> str:
    path = Path(os.path.relpath(file, folder))
    if path.parts[:1] == ("..",):
        # `patch -p1 -d /` finds it; git refuses paths with `..`.
        return file.lstrip("/")
    return path.as_posix()


def changed_lines(base: Mapping[str, str], files: Iterable[NewText]) -> int:
    """Count the lines that a change removes and adds."""
    patch = patch_of(base, files, "/")
    return sum(line[:1] in "+-" and not line.startswith(("+++", "---")) for line in patch.splitlines())

"""Keep verified reproducers beside the saved runs, for issues that are written later.

A `Reproducer` says how it was made; its file says what it shows and with which versions (`written`).
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from msgspec import Struct

from ctrace.inspector.facts.diagnosis import Finding
from ctrace.inspector.facts.session import Environment
from ctrace.inspector.features.fix.reduction.finding import Sought
from ctrace.inspector.files.writing import write_text

_LONGEST_LINE = 96
"""Characters of a comment, which stands after two columns of indentation."""
_ARROWS = {
    Finding.BREAK: "graph break",
    Finding.RECOMPILE: "recompiled",
    Finding.SKIP: "runs eagerly",
    Finding.FAILURE: "raises",
    Finding.DANGER: "differs from eager",
}


class Reproducer(Struct, frozen=True):
    """A program that shows a finding."""

    JSON: ClassVar[str] = (
        "schema finding=sought program=text line lines lines_before form start tries seconds|rounded verified "
        "complete=is_complete interrupted output torch=environment.torch python=environment.python"
    )
    sought: Sought
    text: str
    line: int | None
    """The line that shows the finding, in the program; None: it is in a package or concerns the whole program."""
    form: str
    """How the program shows it."""
    start: str
    """What the reduction started from, in a few words."""
    environment: Environment
    lines: int
    """Lines that are not empty."""
    lines_before: int
    tries: int
    seconds: float
    verified: bool
    """Whether a fresh Python process without ctrace showed the finding."""
    output: str
    """What that process wrote."""
    is_complete: bool
    """Whether nothing was left to try; else the budget was spent, or the user interrupted."""
    interrupted: bool = False


FOLDER = "repros"
_ID = re.compile(r"[\w-]{1,100}")
_LONGEST = 100_000
"""Bytes of a saved program: larger files are none of ours."""


def save(root: Path, made: Reproducer) -> None:
    """Keep a verified reproducer in the folder of the saved runs.

    Raises:
        OSError: it cannot be written.
    """
    # The id is part of a path: one with `../` would leave the folder.
    if made.verified and _ID.fullmatch(made.sought.id):
        folder = root / FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / f"{made.sought.id}.py", made.text)


def saved(root: Path, ids: Iterable[str]) -> dict[str, str]:
    """Return the texts of the reproducers that are there, keyed by the finding's id; they are untrusted."""
    found = {}
    for each in ids:
        file = root / FOLDER / f"{each}.py"
        try:
            if _ID.fullmatch(each) and file.is_file() and file.stat().st_size <= _LONGEST:
                found[each] = file.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue  # the issue is written without it
    return found


def written(text: str, found: tuple[int, ...], sought: Sought, environment: Environment) -> tuple[str, tuple[int, ...]]:
    """Return the file's text, and where the lines that show the finding are now."""
    words = ""
    if not sought.title.startswith(sought.words):
        words = f"{sought.words}: "
    head = [f"# {_one_line(words + sought.title)}", f"# {versions(environment)}"]
    lines = [*head, *text.rstrip("\n").splitlines()]
    moved = tuple(each + len(head) for each in found)
    if moved:
        lines[moved[-1] - 1] += f"  # <- {_ARROWS.get(sought.what, 'here')}"
    return "\n".join(lines) + "\n", moved


def versions(environment: Environment) -> str:
    """Return the versions that an issue needs, on one line."""
    found = [f"torch {environment.torch}", f"Python {environment.python}"]
    return ", ".join([*found, environment.device] if environment.device else found)


def _one_line(text: str) -> str:
    """Keep the first line of a title, and nothing that names a path of the machine."""
    first = " ".join(text.split())
    # Of a path, the file name stays: folders tell who works where, and issues are public.
    first = re.sub(r"(?<![\w.])/(?:[\w.+-]+/)+", "", first)
    if len(first) <= _LONGEST_LINE:
        return first
    return f"{first[: _LONGEST_LINE - 3]}..."

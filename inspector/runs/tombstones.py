"""Remember why runs were deleted, in a file with a short list of names."""

import json
from collections.abc import Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

from ctrace.inspector.files.lock import locked
from ctrace.inspector.files.writing import write_text

_FILE = ".deleted"
_MOST = 500
"""The maximum number of names in the list."""
_LARGEST = 1 << 20


class Gone(StrEnum):
    """Why a run was deleted."""

    NEWER = "newer"
    """ctrace made room for newer runs."""
    PRUNED = "pruned"
    """The user called `ctrace runs --prune`."""


def remember(root: Path, names: Sequence[str], why: Gone) -> None:
    """Record why runs were deleted. If the disk refuses, do nothing: then only the explanation is missing later."""
    if not names:
        return
    file = root / _FILE
    with suppress(OSError), locked(file, lambda _text: None):
        lines = [*_lines(file), *(json.dumps([name, why]) for name in names)]
        write_text(file, "\n".join(lines[-_MOST:]) + "\n")


def why_gone(root: Path, name: str) -> Gone | None:
    """Return why a run was deleted, or None if not known."""
    for line in reversed(_lines(root / _FILE)):
        with suppress(ValueError, TypeError, RecursionError):
            known, why = json.loads(line)
            if known == name:
                return Gone(why)
    return None


def _lines(file: Path) -> list[str]:
    try:
        with file.open(encoding="utf-8", errors="replace") as lines:
            return lines.read(_LARGEST).splitlines()
    except OSError:
        return []

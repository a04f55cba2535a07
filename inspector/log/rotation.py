"""Read the files into which a log was rotated as one log.

logrotate and its like number the parts (`x.log`, the newest, then `x.log.1`, `x.log.2.gz`) or date them
(`x.log-20260721`). A new process of torch opens a log of another name, so parts of one name belong together.
"""

import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from ctrace.inspector.errors import RunError
from ctrace.inspector.files.scratch import scratch
from ctrace.inspector.log.files import (
    DAMAGED,
    STOPPED,
    UnpackedTooLargeError,
    is_unreadable,
    opened,
    rank_of,
)

_PART = re.compile(
    r"(?P<stem>.+?\.(?:log|txt|trace|jsonl?))(?:\.(?P<number>\d{1,6})|-(?P<date>\d{8}(?:-?\d{1,10})?))?(?:\.(?:gz|zst))?"
)
_NEWEST = (2, 0, "")
_BLOCK = 1 << 20
_MOST_NAMES = 8


def name_and_age(path: Path) -> tuple[str, tuple[int, int, str]]:
    """Return the name that all parts of a log share, and a key that sorts them from the oldest to the newest."""
    match = _PART.fullmatch(path.name)
    if match is None:
        return path.name, _NEWEST
    if match["number"] is not None:
        return match["stem"], (1, -int(match["number"]), "")
    if match["date"] is not None:
        return match["stem"], (0, 0, match["date"])
    return match["stem"], _NEWEST


def grouped(paths: Iterable[Path]) -> Iterator[tuple[Path, ...]]:
    """Yield the files of folders by log, the parts of a log from the oldest to the newest."""
    logs: dict[tuple[Path, str], list[Path]] = {}
    for path in paths:
        logs.setdefault((path.parent, name_and_age(path)[0]), []).append(path)
    for parts in logs.values():
        ordered = sorted(parts, key=lambda path: name_and_age(path)[1])
        if len(parts) == 1 or _are_parts(ordered):
            yield tuple(ordered)
        else:
            yield from ((path,) for path in ordered)


def _are_parts(ordered: list[Path]) -> bool:
    """Whether files of one name are parts of one log: `x.log.0` and `x.log.1` without an `x.log` may be two ranks."""
    ages = [name_and_age(path)[1] for path in ordered]
    is_newest_there = ages[-1] == _NEWEST and (1, 0, "") not in ages
    ranks = {rank for path in ordered if (rank := rank_of(path)) is not None}
    return is_newest_there and len(set(ages)) == len(ages) and len(ranks) < 2


def _gap_in(parts: Iterable[Path]) -> str:
    """Name the parts that are missing between those that are there; empty if none is."""
    numbers = {-name_and_age(path)[1][1] for path in parts}
    missing = [str(each) for each in range(1, max(numbers, default=0)) if each not in numbers]
    return ", ".join(missing[:_MOST_NAMES]) + (" and more" if len(missing) > _MOST_NAMES else "")


def rotation_note(parts: tuple[Path, ...]) -> str:
    """Say that the files of a rotated log are read as one, and which are missing."""
    gap = _gap_in(parts)
    missing = f"; missing between them: {gap}" if gap else ""
    return f"{parts[-1].name} was rotated: its {len(parts)} files are read as one log{missing}"


@contextmanager
def one_file(log: Path, parts: tuple[Path, ...]) -> Iterator[Path]:
    """Yield the file of a log; for a rotated one, a copy of its parts, which is deleted afterwards.

    Raises:
        RunError, SetupError: see `join`.
    """
    if not parts:
        yield log
        return
    with scratch() as folder:
        copy = folder / log.name
        join(parts, copy)
        yield copy


def join(parts: Iterable[Path], to: Path) -> None:
    """Write the parts of a log to one file, decompressed.

    Raises:
        RunError: a part cannot be read, or there is no space left.
        SetupError: a part is compressed in a way that this Python cannot read.
    """
    try:
        with to.open("wb") as whole:
            for part in parts:
                _copy(part, whole)
    except OSError as error:
        what = f"the parts of {to.name} cannot be joined in {to.parent}: {error.strerror or error}"
        raise RunError(what, "make them readable, or name a folder with space for a copy: TMPDIR=/path") from None


def _copy(part: Path, whole: BinaryIO) -> None:
    """Copy one part as far as it can be read; the reader reports the records that a damaged one lacks."""
    try:
        with opened(part) as file:
            shutil.copyfileobj(file, whole, _BLOCK)
    except UnpackedTooLargeError as error:
        whole.write(f"\n{STOPPED} ({part.name}: {error})\n".encode())
    except Exception as error:
        if not is_unreadable(error):
            raise
        whole.write(f"\n{DAMAGED} ({part.name}: {error})\n".encode())

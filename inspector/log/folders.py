"""Find the trace logs in a folder, and choose the one that a view reads."""

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.errors import RunError, SelectionError
from ctrace.inspector.files.writing import check_regular
from ctrace.inspector.log.files import (
    NAMES,
    begins_inside,
    first_record,
    grouped,
    is_log,
    name_and_age,
    one_file,
    opened,
    rank_of,
    unreadable,
)

_HINT = "name a run, or a folder that TORCH_TRACE wrote to"
# Chosen: one line of a message.
_MOST_NAMES = 8
# Enough to recognize why files of a folder were passed over; the message counts the rest.
_MOST_SKIPPED = 3
_DEEPEST = 4
"""How deep to look for logs below a folder; launchers nest attempts and ranks (torch/distributed/elastic, 2.13)."""
# A whole disk is more likely than a folder of logs beyond this, and each file is opened to recognize it.
_MOST_FILES = 50_000
_NO_LOGS = frozenset(
    (
        ".py", ".pyc", ".so", ".o", ".a", ".h", ".cpp", ".cu", ".cubin", ".ptx", ".json", ".yaml", ".toml", ".md",
        ".html", ".css", ".js", ".png", ".svg", ".pt", ".pth", ".bin", ".safetensors", ".npy", ".parquet", ".whl",
        ".zip",
    )
)  # fmt: skip
"""Suffixes of files that are not logs, so ctrace does not open them."""


class LogFile(Struct, frozen=True):
    """One log in a folder."""

    path: Path
    rank: int | None
    """None: neither the records nor the name has a rank."""
    bytes: int
    parts: tuple[Path, ...] = ()
    """The files of a rotated log, oldest first; the last one is `path`."""


class Chosen(Struct, frozen=True):
    """The log that a view reads, and a note about the others."""

    path: Path
    note: str = ""
    parts: tuple[Path, ...] = ()
    """The files of a rotated log, oldest first."""
    skipped: str = ""
    """A sentence about what cannot be read; empty if all can."""


class UnreadableEntry(Struct, frozen=True):
    """What may be a log, or a folder of logs, and cannot be read."""

    path: Path
    why: str

    @property
    def is_log(self) -> bool:
        """Whether it has the name of a log."""
        return self.path.name.endswith(NAMES)


class FolderListing(Struct, frozen=True):
    """The logs of a folder."""

    logs: tuple[LogFile, ...]
    skipped: tuple[UnreadableEntry, ...] = ()

    def note(self, folder: Path) -> str:
        """Say what cannot be read; empty if all can."""
        if not self.skipped:
            return ""
        names = [f"{each.path.relative_to(folder)} ({each.why})" for each in self.skipped[:_MOST_SKIPPED]]
        left = len(self.skipped) - len(names)
        more = ""
        if left:
            more = f" and {left} more"
        return f"skipped in {folder}, as it cannot be read: {', '.join(names)}{more}"


def logs_in(folder: Path) -> FolderListing:
    """List the logs in a folder and the folders below it, by rank, then by path.

    Raises:
        RunError: the folder cannot be read.
        SetupError: a log is compressed in a way that this Python cannot read.
    """
    skipped: list[UnreadableEntry] = []
    found = []
    for parts in grouped(_files(folder, skipped)):
        try:
            if any(map(is_log, parts)):
                found.append(_log(parts))
        except OSError as error:  # it is gone, or its disk fails
            skipped.append(_skipped(parts[-1], error))
    found.sort(key=lambda log: (log.rank is None, log.rank or 0, str(log.path)))
    return FolderListing(tuple(found), tuple(sorted(skipped, key=lambda each: each.path)))


def _log(parts: tuple[Path, ...]) -> LogFile:
    # Records before `init_process_group` have no rank, so the newest part is the most likely to have one.
    # 193/folders[:]: In place, as `os.walk` looks at this list to go on.
    ranks = (rank_of(path) for path in reversed(parts))
    rank = next((rank for rank in ranks if rank is not None), None)
    size = sum(path.stat().st_size for path in parts)
    return LogFile(parts[-1], rank, size, parts if len(parts) > 1 else ())


def _skipped(path: Path, error: OSError) -> UnreadableEntry:
    return UnreadableEntry(path, error.strerror or type(error).__name__)


def absolute(log: LogFile) -> LogFile:
    """Return a log as a process with another working directory finds it."""
    return replace(log, path=log.path.absolute(), parts=tuple(each.absolute() for each in log.parts))


@contextmanager
def opened_log(log: LogFile) -> Iterator[BinaryIO]:
    """Open a log, decompressed, and its parts as one.

    Raises:
        RunError: it cannot be read, or its parts cannot be joined.
        SetupError: it is compressed in a way that this Python cannot read.
    """
    try:
        with one_file(log.path, log.parts) as path, opened(path) as file:
            yield file
    except OSError as error:
        raise unreadable(log.path, error) from None


def whole(log: Path) -> tuple[Path, ...]:
    """Return the files of a rotated log from its newest one, oldest first; empty for any other log.

    Raises:
        OSError: its folder cannot be read.
    """
    stem = name_and_age(log)[0]
    if log.name != stem:  # the user named an older part
        return ()
    siblings = (each for each in log.parent.iterdir() if name_and_age(each)[0] == stem and _is_file(each))
    found = next((parts for parts in grouped(siblings) if log in parts), ())
    if len(found) > 1:
        return found
    return ()


def _is_file(path: Path) -> bool:
    """Whether a path is a file; unlike `Path.is_file`, also if the system lets nobody ask."""
    try:
        return path.is_file()
    except OSError:
        return False


def _files(folder: Path, skipped: list[UnreadableEntry]) -> Iterator[Path]:
    """Yield the readable regular files of a folder, without hidden ones.

    Args:
        folder: The folder.
        skipped: Gets what cannot be read.

    Raises:
        RunError: the folder itself cannot be read, or has too many files.
    """

    def skip(error: OSError) -> None:
        path = Path(error.filename)
        if path == folder:
            raise unreadable(folder, error) from None
        skipped.append(_skipped(path, error))

    count = 0
    for here, folders, names in os.walk(folder, onerror=skip):
        is_deep = len(Path(here).relative_to(folder).parts) >= _DEEPEST
        folders[:] = [] if is_deep else sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(here, name)
            if name.startswith(".") or path.suffix in _NO_LOGS:
                continue
            count += 1
            if count > _MOST_FILES:
                raise RunError(f"{folder} has more than {_MOST_FILES:,} files that may be logs", _HINT)
            try:
                # A pipe or a device would block the reader, or never end.
                check_regular(path)
                # Asked before reading, so that a log without permission is named instead of left out.
                if not os.access(path, os.R_OK):
                    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            except OSError as error:
                skipped.append(_skipped(path, error))
                continue
            yield path


def pieces_of_one(logs: Iterable[LogFile]) -> tuple[LogFile, ...]:
    """Return the pieces of one process's log under several names, in their order; empty if the logs are others.

    Only the earliest piece has a beginning.
    """
    ordered = sorted(logs, key=lambda log: first_record(log.path)[0])
    later = [begins_inside(log.path) for log in ordered]
    is_one = len({first_record(log.path)[1] for log in ordered}) == 1
    if is_one and len(ordered) > 1 and not later[0] and all(later[1:]):
        return tuple(ordered)
    return ()


def joining(folder: Path, pieces: Iterable[LogFile]) -> str:
    """Return the advice to join pieces."""
    return f"join them in this order: {', '.join(str(each.path.relative_to(folder)) for each in pieces)}"


def choose(folder: Path, rank: int | None) -> Chosen:
    """Choose the log of a folder for a view of one run: the given rank's, else the lowest rank's.

    Raises:
        RunError: there is no log.
        SelectionError: there is no log of that rank.
    """
    found = logs_in(folder)
    logs, skipped = found.logs, found.note(folder)
    if not logs:
        raise RunError(f"{folder} has no run and no trace log{f'; {skipped}' if skipped else ''}", _HINT)
    ranks = sorted({log.rank for log in logs if log.rank is not None})
    if rank is not None and rank not in ranks:
        known = "its logs have no rank: leave --rank out, or name one log"
        if ranks:
            known = f"there are: {_listed(ranks)}"
        raise SelectionError("rank", f"{rank}: {folder} has no log of that rank", known)
    by_rank = rank is not None
    if not by_rank and ranks:
        rank = ranks[0]
    several = [log for log in logs if log.rank == rank]
    # An aborted start leaves a small log beside that of the job.
    largest = max(several, key=lambda log: log.bytes)
    note = _note(folder, logs, ranks, several, largest, by_rank=by_rank)
    return Chosen(largest.path, note, largest.parts, skipped)


def _note(
    folder: Path, logs: tuple[LogFile, ...], ranks: list[int], several: list[LogFile], chosen: LogFile, *, by_rank: bool
) -> str:
    """Say which log is read, and how to read the others."""
    name = chosen.path.relative_to(folder)
    if len(several) > 1:
        if pieces := pieces_of_one(several):
            return f"{folder} has one log in {len(pieces)} pieces; this is only {name}: {joining(folder, pieces)}"
        whose = "without a rank"
        if chosen.rank is not None:
            whose = f"of rank {chosen.rank}"
        return f"{folder} has {len(several)} logs {whose}; this is the largest, {name}: name another one to read it"
    if len(logs) > 1 and not by_rank:
        todo = f"--rank N reads another, ctrace ranks {folder} compares all"
        return f"{folder} has logs of {len(ranks)} ranks; this is rank {chosen.rank}: {todo}"
    return ""


def _listed(ranks: list[int]) -> str:
    left = len(ranks) - _MOST_NAMES
    return ", ".join(map(str, ranks[:_MOST_NAMES])) + (f", and {left} more" if left > 0 else "")

"""Write the trace log of a capture: torch's structured-trace format, interleaved with ctrace's artifacts."""

import errno
import os
from collections.abc import Collection
from os import close, fstat, write
from os import open as open_file
from pathlib import Path
from threading import local
from typing import Any

from ctrace.inspector.facts.wire import Record
from ctrace.inspector.log.log_line import artifact, artifact_of, record_line
from ctrace.inspector.runs.spill import framed

# Import functions by name: a program may replace the modules' attributes.

# Appending is atomic with regard to other processes; closing on exec keeps the log out of the program's children.
_APPENDING = os.O_WRONLY | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)


class _Now(local):
    """The kinds of records that a thread writes."""

    kept: Collection[str] | None = None


class TraceLog:
    """An append-only log; the operating system has a record when `write` returns, so a crash loses nothing.

    A thread that writes later could not promise that, and would save little: of the 22 s of CPU time that a stack of 12
    transformer layers with backward takes, these writes take 0.03 s, and formatting the records 0.1 s.

    Forked children write to the same file: each record is one `write` to a descriptor opened for appending. Records
    that the disk does not accept go through the pipe `spare`; without one, the log ends there and the program goes on.
    """

    def __init__(self, path: Path | None, spare: int | None = None) -> None:
        self._now = _Now()
        self._sinks: list[_File | _Pipe] = [] if spare is None else [_Pipe(spare)]
        if path is not None:
            try:
                self._sinks.insert(0, _File(path, create=spare is None))
            except OSError:
                if spare is None:
                    raise

    @property
    def kept(self) -> Collection[str] | None:
        """The kinds of records that this thread writes; None for all."""
        return self._now.kept

    @kept.setter
    def kept(self, kinds: Collection[str] | None) -> None:
        self._now.kept = kinds

    def keeps(self, kind: str) -> bool:
        """Whether this thread writes records of a kind."""
        return self._now.kept is None or kind in self._now.kept

    def close(self) -> None:
        """Close the file; later records are dropped."""
        sinks, self._sinks = self._sinks, []
        for sink in sinks:
            sink.close()

    def add(self, record: Record, context: dict[str, Any] | None = None) -> None:
        """Write one of ctrace's records; `context` is as in `artifact`."""
        line, text = artifact_of(record, context)
        self.write(line, text, "ctrace", 0)

    def artifact(self, name: str, payload: Any, context: dict[str, Any] | None = None) -> None:
        """Write one of ctrace's records: artifact `ctrace_<name>` with a JSON payload.

        `context` has `frame_id`, `frame_compile_id` and `attempt` if the record belongs to a compilation.
        """
        record, text = artifact(name, payload, context)
        self.write(record, text, "ctrace", 0)

    def write(self, record: dict[str, Any], payload: str | None, source: str, line: int) -> None:
        """Append one record; `source` and `line` identify the code that writes it."""
        # Before formatting, which takes more time than writing.
        if not self._sinks or not self.keeps(_kind(record)):
            return
        self._append(record_line(record, payload, source, line))

    def _append(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest and (sinks := self._sinks):
            try:
                rest = rest[sinks[0].write(rest) :]
            except OSError:
                # The disk is full, or the program closed the descriptor. Use only the next sink from now on:
                # a log with a gap would look complete.
                self._sinks = [sink for sink in self._sinks if sink is not sinks[0]]


class _Descriptor:
    """A descriptor that checks its identity: the program may have closed the number and reused it for another file."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._identity = _identity(number)

    def is_same(self, other: int) -> bool:
        """Whether another descriptor refers to the same file."""
        return _identity(other) == self._identity

    @property
    def is_ours(self) -> bool:
        """Whether the descriptor still refers to the opened file."""
        return self.is_same(self.number)

    def close(self) -> None:
        """Close the descriptor unless it is already closed."""
        if self.is_ours:
            close(self.number)


class _File:
    """The log on disk."""

    def __init__(self, path: Path, *, create: bool) -> None:
        self._path = path.absolute() if create else path
        self._open = _Descriptor(_opened(path, os.O_CREAT if create else 0))

    def write(self, data: memoryview) -> int:
        """Append as much as the disk accepts; return how much that is.

        Raises:
            OSError: the disk accepts nothing.
        """
        if not self._open.is_ours:
            self._reopen()
        return write(self._open.number, data)

    def _reopen(self) -> None:
        """Reopen the same file, because daemons close every descriptor."""
        number = _opened(self._path)
        if not self._open.is_same(number):
            close(number)
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        self._open = _Descriptor(number)

    def close(self) -> None:
        """Close the file."""
        self._open.close()


class _Pipe:
    """The pipe to the ctrace command that reads this log."""

    def __init__(self, number: int) -> None:
        os.set_inheritable(number, False)  # keep it out of the program's children
        self._open = _Descriptor(number)

    def write(self, data: memoryview) -> int:
        """Write all of it.

        Raises:
            OSError: the reader is gone, or the program closed the pipe.
        """
        if not self._open.is_ours:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        for frame in framed(data):
            write(self._open.number, frame)
        return len(data)

    def close(self) -> None:
        """Close the pipe."""
        self._open.close()


def _opened(path: Path, flags: int = 0) -> int:
    """Open a log for appending with a descriptor above 2: a program may run with closed stdio, or reopen it."""
    number = open_file(path, _APPENDING | flags, 0o644)
    if number > 2 or os.name != "posix":
        return number
    import fcntl

    try:
        return fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        close(number)


def _identity(number: int) -> tuple[int, int] | None:
    """Return a file's device and inode, or None if the descriptor is closed."""
    try:
        found = fstat(number)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _kind(record: dict[str, Any]) -> str:
    """Return the kind of a record: the artifact's name, else the first key, as torch does (_logging/_internal.py)."""
    artifact = record.get("artifact")
    return str(artifact["name"] if isinstance(artifact, dict) and "name" in artifact else next(iter(record), ""))

"""Write the trace log of a capture: torch's structured-trace format, interleaved with ctrace's artifacts.

The handler of the log stays attached when the program switches logging off (`kept`). Programs do that, mostly without
having torch in mind: `logging.config.dictConfig` disables every logger that it does not name, `logging.disable`
silences all loggers, `torch._logging.set_logs` and test runners clear handlers. ctrace would lose its records, because
torch writes nothing without `trace_log.handlers` (torch/_logging/_internal.py:1494, 2.13).
"""

import errno
import logging
import os
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from os import close, fstat, write
from os import open as open_file
from pathlib import Path
from threading import local
from typing import Any

from ctrace.inspector.facts.wire import Record
from ctrace.inspector.log.log_line import artifact, artifact_of, record_line
from ctrace.inspector.runs.channel import framed

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
            # The command has created the file, and reads the pipe, too: without the file, all records go there.
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
        if create:
            # The program may have changed its folder by the time the file is reopened.
            self._path = path.absolute()
        else:
            self._path = path
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


_KEPT = "_ctrace_kept"


class _KeptLogger(logging.Logger):
    """A logger that cannot be switched off for ctrace's handlers; other handlers behave as usual."""

    @property
    def handlers(self) -> list[logging.Handler]:
        """The handlers, always including the kept ones."""
        handlers: list[logging.Handler] = self.__dict__["handlers"]
        # In the list itself: `addHandler` and `removeHandler` change the list that they get.
        handlers += [each for each in self.__dict__[_KEPT] if each not in handlers]
        return handlers

    @handlers.setter
    def handlers(self, value: list[logging.Handler]) -> None:
        self.__dict__["handlers"] = value

    @property
    def isEnabledFor(self) -> Callable[[int], bool]:  # noqa: N802 - logging's name
        """Whether any handler receives records of a level; a property, because torch sets an attribute of this name."""
        return lambda _level: True

    @isEnabledFor.setter
    def isEnabledFor(self, value: Any) -> None:  # noqa: N802 - as above
        self.__dict__["isEnabledFor"] = value

    def handle(self, record: logging.LogRecord) -> None:
        """Pass a record to ctrace's handlers, and to the others if the logger is enabled."""
        kept = tuple(self.__dict__[_KEPT])
        for each in kept:
            each.handle(record)
        # As `Logger.isEnabledFor` would decide, which always says yes here.
        if self.disabled or record.levelno < self.level or not self.filter(record):
            return
        for each in tuple(self.handlers):
            if each not in kept and record.levelno >= each.level:
                each.handle(record)
        if self.propagate and self.parent is not None:
            self.parent.callHandlers(record)


@contextmanager
def kept(logger: logging.Logger, handler: logging.Handler) -> Iterator[None]:
    """Add a handler that receives every record of the logger, whatever the program does to logging."""
    about: dict[str, Any] = logger.__dict__
    before = type(logger)
    about.setdefault(_KEPT, []).append(handler)
    # The class, not the object: other modules hold references to the logger.
    logger.__class__ = _KeptLogger
    try:
        yield
    finally:
        # Several hooks keep handlers of one logger, and the last to end gives it its class back.
        about[_KEPT].remove(handler)
        if handler in about["handlers"]:
            about["handlers"].remove(handler)
        if not about[_KEPT]:
            del about[_KEPT]
            # What this hook found may itself be the class of an earlier one.
            if before is not _KeptLogger:
                logger.__class__ = before
            else:
                logger.__class__ = logging.Logger

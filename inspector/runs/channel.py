"""Between a command and the child that captures for it: the order goes one way, the log the other.

Both lie in the run's folder. What the disk does not take goes through pipes: then nothing is saved, but all is seen.
"""

import errno
import os
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from ctrace.inspector.errors import SetupError
from ctrace.inspector.files.disk_errors import reason, remedy
from ctrace.inspector.runs.order import Order
from ctrace.inspector.runs.spill import Unframer
from ctrace.inspector.runs.store import Run

_PIPE_BYTES = 1 << 20
_CHUNK = 1 << 16


class Channel:
    """The order and the log of one capture.

    The log is open before the child starts, so that nothing the program deletes or replaces can hide what was seen.

    Raises:
        SetupError: there is neither a folder nor a pipe to be had.
    """

    def __init__(self, order: Order, run: Run | None) -> None:
        self._log = None if run is None else _opened(run.log)
        self._saved_order = None if run is None else run.order
        self._text = order.to_json()
        self._unframer = Unframer()
        self._has_spilled = False
        self._order: _Pipe | None = None
        self._spare: _Pipe | None = None
        try:
            self._spare = _Pipe()
            self._order = _Pipe() if run is None else None
        except OSError as error:
            if run is None:
                what = f"neither a file nor a pipe for the log can be made: {reason(error)}"
                raise SetupError(what, remedy(error)) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        for pipe in self._pipes:
            pipe.close()
        if self._log is not None:
            self._log.close()

    @property
    def arguments(self) -> tuple[str, ...]:
        """What the child is started with: the file of the order, and the pipe for what the disk does not take."""
        order = f"/dev/fd/{self._order.reading}" if self._order is not None else str(self._saved_order)
        return (order,) if self._spare is None else (order, str(self._spare.writing))

    @property
    def inherited(self) -> tuple[int, ...]:
        """The descriptors that the child needs."""
        order = () if self._order is None else (self._order.reading,)
        return order if self._spare is None else (*order, self._spare.writing)

    @property
    def is_saved(self) -> bool:
        """Whether all of the log is on disk."""
        return self._log is not None and not self._has_spilled

    def started(self) -> None:
        """Leave the child's ends to it, and send the order."""
        if self._spare is not None:
            self._spare.close_writing()
        if self._order is not None:
            self._order.close_reading()
            self._order.send(self._text.encode())

    def read(self) -> bytes:
        """Return what was written since the last time; nothing: there is no more for now.

        The file comes first: the child writes to the pipe only once the disk has refused something.
        """
        return self._of_file() or self._of_pipe()

    @property
    def _pipes(self) -> "list[_Pipe]":
        return [pipe for pipe in (self._spare, self._order) if pipe is not None]

    def _of_file(self) -> bytes:
        if self._log is None:
            return b""
        try:
            return self._log.read(_CHUNK)
        except OSError:  # a disk that broke; what the child cannot write either comes through the pipe
            self._log.close()
            self._log = None
            return b""

    def _of_pipe(self) -> bytes:
        while self._spare is not None and (data := self._spare.read()):
            self._has_spilled = True
            if found := b"".join(self._unframer.feed(data)):
                return found
        return b""


class _Pipe:
    """A pipe between this process and the child."""

    def __init__(self) -> None:
        if os.name != "posix":
            raise OSError(errno.ENOSYS, "this system hands no pipe on")
        self.reading, self.writing = os.pipe()
        _widen(self.writing)

    def read(self) -> bytes:
        """Return what is there now."""
        os.set_blocking(self.reading, False)
        try:
            return os.read(self.reading, _PIPE_BYTES)
        except BlockingIOError:
            return b""

    def send(self, data: bytes) -> None:
        """Write all of it and close this end, in a thread: a pipe holds less than the longest order.

        The thread owns the descriptor from here on. Closed twice, its number may be that of something else by then.
        """
        descriptor, self.writing = self.writing, -1
        threading.Thread(target=_send, args=(descriptor, data), daemon=True).start()

    def close_reading(self) -> None:
        """Leave this end to the child."""
        self.reading = _closed(self.reading)

    def close_writing(self) -> None:
        """Leave this end to the child."""
        self.writing = _closed(self.writing)

    def close(self) -> None:
        """Close what is still open of it."""
        self.close_reading()
        self.close_writing()


def _send(descriptor: int, data: bytes) -> None:
    """Write to a pipe that nobody may read any more, and close it."""
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    except BrokenPipeError:
        return
    finally:
        os.close(descriptor)


def _closed(descriptor: int) -> int:
    if descriptor >= 0:
        os.close(descriptor)
    return -1


def _opened(log: Path) -> IO[bytes] | None:
    """Make the log, and open it to read; None: the disk does not even take an empty file."""
    try:
        log.touch()
        return log.open("rb", buffering=0)
    except OSError:
        return None


def _widen(pipe: int) -> None:
    """Make a pipe hold more than 64 KiB where the system can (Linux), so that the child waits less for us."""
    import fcntl

    size = getattr(fcntl, "F_SETPIPE_SZ", None)
    if size is not None:
        with suppress(OSError):  # above the user's share (/proc/sys/fs/pipe-user-pages-soft)
            fcntl.fcntl(pipe, size, _PIPE_BYTES)

"""The connection between a command and its capturing child: the request goes to the child, the log comes back.

A `Channel` uses files in the run's folder for both. If the disk refuses them, they go through pipes: then the run is
complete, but not saved. Through a pipe, the log goes in frames, which concurrent writers cannot split.
"""

import errno
import os
import select
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from ctrace.inspector.errors import SetupError
from ctrace.inspector.files.disk_errors import reason, remedy
from ctrace.inspector.runs.capture_request import PIPES, CaptureRequest
from ctrace.inspector.runs.store import SavedRun

_HEAD = struct.Struct("<QQH?")
"""A frame's header: process, thread, length, and whether the record ends with this frame."""
_MOST = getattr(select, "PIPE_BUF", 512) - _HEAD.size
"""The most bytes of a record in one frame: pipe writes of up to PIPE_BUF bytes are atomic (POSIX, write)."""


def framed(data: memoryview) -> Iterator[bytes]:
    """Split a record into frames; write each frame with one call."""
    process, thread = os.getpid(), threading.get_native_id()
    for begin in range(0, len(data), _MOST):
        chunk = data[begin : begin + _MOST]
        yield _HEAD.pack(process, thread, len(chunk), begin + _MOST >= len(data)) + chunk


class Unframer:
    """Reassembles records that processes and threads wrote concurrently."""

    def __init__(self) -> None:
        self._data = b""
        self._partial: dict[tuple[int, int], bytearray] = {}

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Add data from the pipe, and yield each record that it completes."""
        self._data += data
        at = 0
        while len(self._data) - at >= _HEAD.size:
            process, thread, length, is_last = _HEAD.unpack_from(self._data, at)
            end = at + _HEAD.size + length
            if end > len(self._data):
                break
            record = self._partial.setdefault((process, thread), bytearray())
            record += self._data[at + _HEAD.size : end]
            if is_last:
                yield bytes(self._partial.pop((process, thread)))
            at = end
        self._data = self._data[at:]


# The most that Linux gives a pipe of a user without asking root (/proc/sys/fs/pipe-max-size).
_PIPE_BYTES = 1 << 20
# Chosen: few calls, little memory.
_CHUNK = 1 << 16


class Channel:
    """The request and the log of one capture.

    The log is open before the child starts, so that a program that deletes or replaces files cannot hide it.

    Raises:
        SetupError: neither a folder nor a pipe is available.
    """

    def __init__(self, request: CaptureRequest, run: SavedRun | None) -> None:
        self._log = None if run is None else _opened(run.log)
        self._saved_request = None if run is None else run.request
        self._text = request.to_json()
        self._unframer = Unframer()
        self._has_spilled = False
        self._request: _Pipe | None = None
        self._spare: _Pipe | None = None
        try:
            self._spare = _Pipe()
            # Through the pipe only if nothing is saved: a request on disk is what `rerun` reads.
            self._request = _Pipe() if run is None else None
        except OSError as error:
            if run is None:
                what = f"cannot create a file or a pipe for the log: {reason(error)}"
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
        """The child's arguments: the file of the request, and the pipe for log data that the disk refuses."""
        if self._request is not None:
            request = str(PIPES / str(self._request.reading))
        else:
            request = str(self._saved_request)
        if self._spare is None:
            return (request,)
        return (request, str(self._spare.writing))

    @property
    def inherited(self) -> tuple[int, ...]:
        """The descriptors that the child needs."""
        request: tuple[int, ...] = ()
        if self._request is not None:
            request = (self._request.reading,)
        if self._spare is None:
            return request
        return (*request, self._spare.writing)

    @property
    def is_saved(self) -> bool:
        """Whether the whole log is on disk."""
        return self._log is not None and not self._has_spilled

    def started(self) -> None:
        """Close the child's ends here, and send the request."""
        if self._spare is not None:
            self._spare.close_writing()
        if self._request is not None:
            self._request.close_reading()
            self._request.send(self._text.encode())

    def read(self) -> bytes:
        """Return the data since the last call; empty if there is no more for now.

        The file comes first: the child writes to the pipe only after the disk has refused something.
        """
        return self._of_file() or self._of_pipe()

    @property
    def _pipes(self) -> "list[_Pipe]":
        return [pipe for pipe in (self._spare, self._request) if pipe is not None]

    def _of_file(self) -> bytes:
        if self._log is None:
            return b""
        try:
            return self._log.read(_CHUNK)
        except OSError:  # the disk failed; the child sends what it cannot write through the pipe
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
        # `pass_fds` of subprocess exists on POSIX systems only.
        if os.name != "posix":
            raise OSError(errno.ENOSYS, "this system cannot pass on a pipe")
        self.reading, self.writing = os.pipe()
        _widen(self.writing)

    def read(self) -> bytes:
        """Return the data that is available now."""
        # The command has other things to do while the child is silent.
        os.set_blocking(self.reading, False)
        try:
            return os.read(self.reading, _PIPE_BYTES)
        except BlockingIOError:
            return b""

    def send(self, data: bytes) -> None:
        """Write all data and close this end, in a thread: a long request does not fit into a pipe.

        From then on the thread owns the descriptor, because closing a descriptor twice could close another file with
        the same number.
        """
        descriptor, self.writing = self.writing, -1
        threading.Thread(target=_send, args=(descriptor, data), daemon=True).start()

    def close_reading(self) -> None:
        """Close the reading end in this process."""
        self.reading = _closed(self.reading)

    def close_writing(self) -> None:
        """Close the writing end in this process."""
        self.writing = _closed(self.writing)

    def close(self) -> None:
        """Close both ends."""
        self.close_reading()
        self.close_writing()


def _send(descriptor: int, data: bytes) -> None:
    """Write to a pipe, which may have lost its reader, and close it."""
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
    """Create the log and open it for reading; None if the disk refuses even an empty file."""
    try:
        log.touch()
        return log.open("rb", buffering=0)
    except OSError:
        return None


def _widen(pipe: int) -> None:
    """Enlarge a pipe beyond 64 KiB where possible (Linux), so that the child rarely waits for this process."""
    import fcntl

    size = getattr(fcntl, "F_SETPIPE_SZ", None)
    if size is not None:
        with suppress(OSError):  # above the user's limit (/proc/sys/fs/pipe-user-pages-soft)
            fcntl.fcntl(pipe, size, _PIPE_BYTES)

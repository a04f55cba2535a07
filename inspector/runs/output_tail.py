"""Save the output of a captured program to a file of limited size, and keep the last lines."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from ctrace.inspector.runs.child import ChildProcess, cannot_start

FILE = "output.txt"
"""The file's name in the run's folder."""
# A program that never stops writing must not fill the disk.
_MOST_IN_FILE = 1 << 20
# An error message stands at the end, and the last lines of a traceback fit into this.
_TAIL = 1 << 14
_LINES, _LONG = 15, 300


class OutputTail:
    """Receives what the child process writes to `sink`."""

    def __init__(self, child: ChildProcess) -> None:
        self._child = child
        self._reading, writing = os.pipe()
        self.sink = os.fdopen(writing, "wb", buffering=0)
        self._written = 0
        self._tail = b""
        self._pump = threading.Thread(target=self._read, daemon=True)
        self._file: IO[bytes] | None = None
        self._is_full = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Read the output during the block, and what is left of it when the block ends.

        Raises:
            SetupError: the system cannot start a thread.
        """
        try:
            self._pump.start()
        except RuntimeError as error:
            self.sink.close()
            os.close(self._reading)
            raise cannot_start(error) from None
        try:
            yield
        finally:
            self.sink.close()
            self._pump.join(
                timeout=1.0
            )  # a process that cannot be killed, such as another user's, may keep the pipe open

    def last_lines(self) -> str:
        """Return the last lines, shortened."""
        lines = self._tail.decode("utf-8", "replace").splitlines()
        if len(self._tail) == _TAIL and len(lines) > 1:
            lines = lines[1:]  # the first line may be incomplete
        return "\n".join(line[:_LONG] for line in lines[-_LINES:])

    def _read(self) -> None:
        with os.fdopen(self._reading, "rb", buffering=0) as source:
            while chunk := source.read(1 << 16):
                self._tail = (self._tail + chunk)[-_TAIL:]
                self._keep(chunk)
        if self._written > _MOST_IN_FILE:
            self._write(b"\n[...]\n" + self._tail)
        if self._file is not None:
            self._file.close()

    def _keep(self, chunk: bytes) -> None:
        """A program that never stops writing must not fill the disk."""
        if self._written < _MOST_IN_FILE:
            self._write(chunk[: _MOST_IN_FILE - self._written])
        self._written += len(chunk)

    def _write(self, chunk: bytes) -> None:
        if self._child.run is None or self._is_full:
            return
        try:
            self._file = self._file or (self._child.run.folder / FILE).open("wb", buffering=0)
            self._file.write(chunk)
        except OSError:  # full disk: keep reading, or the program would block
            self._is_full = True

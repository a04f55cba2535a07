"""Own the processes of a capture: start the program, kill it with all its descendants, and save what it prints.

On Linux, a watcher (`watcher.py`) kills all of them when the command line ends, even if SIGKILL ends it. macOS has no
subreaper: there, a program that does not need the keyboard gets a process group, and ctrace kills the whole group.
Processes that leave the group survive, and all of them survive if SIGKILL ends the command line.

The output goes to a file of limited size, and its last lines are kept for the report of a failure (`OutputTail`).
"""

import errno
import os
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO

from msgspec import Struct, field

from ctrace.inspector.errors import SetupError
from ctrace.inspector.processes.boot import Interpreter
from ctrace.inspector.processes.spawned import KILLED, Forked, Process, Stream, started
from ctrace.inspector.runs.capture_request import CaptureRequest
from ctrace.inspector.runs.fork_client import ForkServer
from ctrace.inspector.runs.store import SavedRun

_LIMITS = {
    errno.EAGAIN: "too many processes: end some, or raise ulimit -u",
    errno.ENOMEM: "out of memory: end other programs",
    errno.EMFILE: "too many files are open: raise ulimit -n",
    errno.ENFILE: "too many files are open on this system",
}


class ChildProcess(Struct):
    """The child process of one capture; other threads can end it and read its peak memory."""

    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables to add to the child's environment."""
    cores: int | None = None
    """How many cores the capture may use; None for all."""
    has_terminal: bool = False
    """Whether the program shares our terminal: it can read the keyboard, and Ctrl-C reaches it."""
    records_files: bool = False
    """Whether to record what the model depends on: the files that it was loaded from, and what it asked."""
    preloads: bool = False
    """Whether a new process may import torch before the program, where a fork may run the capture, too."""
    server: ForkServer | None = None
    """Forks a process for the capture if the capture may run in a fork; None: always start a new process."""
    run: SavedRun | None = None
    """The saved run, set when the capture begins; None if the run is not saved."""
    peak: int = 0
    """Peak memory of the child so far, in bytes; 0 if not known."""
    left: tuple[str, ...] = ()
    """Processes that the program left running and that ctrace killed, each as `command (pid)`."""
    withheld: tuple[str, ...] = ()
    """Variables of ours that the child does not get."""
    interpreter: Interpreter | None = None
    """The Python of the child; None: the one that runs ctrace."""
    _process: Process | None = None
    _end: threading.Event = field(default_factory=threading.Event)

    def began(self, run: SavedRun | None) -> None:
        """Record the saved run, just before the child starts."""
        self.run = run

    def end(self) -> None:
        """Request the end of the child; the thread that watches it kills it."""
        self._end.set()

    @property
    def is_wanted(self) -> bool:
        """Whether no thread has called `end`."""
        return not self._end.is_set()

    @contextmanager
    def forked(
        self,
        request: CaptureRequest,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        outputs: tuple[Stream, Stream],
        inherited: Sequence[int] = (),
        module: str = "",
    ) -> Iterator[bool]:
        """Like `running`, but run the capture in a fork of the server; yield False if the capture cannot run in a fork.

        With a `module`, run its `main`, a task that loads what the request names.

        Raises:
            SetupError: the system cannot start it.
        """
        # A fork of the server has no terminal, so it cannot read the keyboard.
        if self.server is None or self.has_terminal:
            yield False
            return
        try:
            self._process = self.server.fork(
                request,
                arguments,
                self._variables(environment),
                outputs,
                inherited,
                lambda: self.is_wanted,
                module,
            )
        except (OSError, RuntimeError) as error:
            raise cannot_start(error) from None
        try:
            yield self._process is not None
        finally:
            if self._process is not None:
                self._process.kill()

    @property
    def observed(self) -> str:
        """What the program asked of the system, as JSON, once it has ended; empty if it was not observed."""
        if self._process is None:
            return ""
        return self._process.observed

    @property
    def wants_restart(self) -> bool:
        """Whether the process was a fork that requested a new process in its place."""
        return isinstance(self._process, Forked) and self._process.wants_restart and self.is_wanted

    @contextmanager
    def running(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        stdout: Stream = None,
        stderr: Stream = None,
        inherited: Sequence[int] = (),
    ) -> Iterator[bool]:
        """Run a command during the block, and kill it with all its descendants afterwards; yield True.

        The command also gets the descriptors in `inherited`.

        Raises:
            SetupError: the system cannot start it.
        """
        try:
            self._process = started(
                command,
                self._variables(environment),
                stdout,
                stderr,
                # A capture beside others must not take the keyboard from them.
                stdin=None if self.has_terminal else subprocess.DEVNULL,
                has_terminal=self.has_terminal,
                inherited=inherited,
                observes=self.records_files,
            )
        except (OSError, RuntimeError) as error:
            raise cannot_start(error) from None
        try:
            yield True
        finally:
            self._process.kill()

    def _variables(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return the child's environment."""
        kept = {name: value for name, value in environment.items() if name not in self.withheld}
        return {**kept, **self.environment}

    def status(self) -> int | None:
        """Return the exit code or the negative signal, or None while the child runs.

        After the program ends, wait for the processes that it left running.

        Raises:
            SetupError: the system could not start it.
        """
        process = self._process
        if process is None:
            return None
        # Before the poll: the kernel forgets the peak of a process that was waited for.
        self.peak = max(self.peak, _peak_of(process.pid))
        try:
            status = process.poll()
        except OSError as error:
            raise cannot_start(error) from None
        if status is not None:
            self.left = process.finish()
        return status

    def kill(self) -> int:
        """Kill the child with all its descendants, and return its exit code or negative signal."""
        if self._process is None:
            return KILLED
        self._process.kill()
        return self.status() or KILLED


def cannot_start(error: Exception) -> SetupError:
    """Return an error that says why the system cannot start a process or thread."""
    # Python raises RuntimeError if it cannot start a thread, and nearly always for want of processes.
    if isinstance(error, OSError):
        number = error.errno
    else:
        number = errno.EAGAIN
    if number is not None:
        why = os.strerror(number)
    else:
        why = str(error)
    return SetupError(f"the program cannot be started: {why}", _LIMITS.get(number or 0, "see ctrace doctor"))


def _peak_of(pid: int) -> int:
    """Return the peak memory of a process in bytes; 0 if the process has ended, or if the system is not Linux."""
    try:
        with open(f"/proc/{pid}/status", "rb", buffering=0) as file:  # noqa: PTH123 - read 20 times a second
            status = file.read()
    except OSError:
        return 0
    _, found, rest = status.partition(b"\nVmHWM:")
    if found:
        return int(rest.split(None, 1)[0]) * 1024
    return 0


@contextmanager
def dropped_output() -> Iterator[IO[bytes]]:
    """Yield a pipe that something reads: only a process whose output goes to a pipe may be a fork."""
    reading, writing = os.pipe()

    def read() -> None:
        with os.fdopen(reading, "rb", buffering=0) as source:
            while source.read(1 << 16):
                pass

    with os.fdopen(writing, "wb", buffering=0) as sink:
        threading.Thread(target=read, daemon=True).start()
        yield sink


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
        # What was left out is the middle: the beginning says what ran, the end how it failed.
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

"""Start processes that can be killed with all their descendants (`started`), or for their output alone (`answer_of`).

They are killed by a watcher on Linux, by process group elsewhere, and end with the command line. `Orphans` adopts and
kills what a killed watcher leaves behind: this process is a subreaper only while it captures, since it may belong to
the user, such as a test runner.
"""

import ctypes
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO, Protocol

from msgspec import Struct

from ctrace.inspector.processes import watcher
from ctrace.inspector.processes.forking import RESTART

Stream = int | IO[bytes] | None
Streams = tuple[Stream, Stream, Stream]
"""stdin, stdout, stderr."""
KILLED = -9
"""The status of a killed process."""
# What the watcher takes at most, and some time for its messages.
_FINISH_SECONDS = watcher.LEAVING_SECONDS + watcher.KILLING_SECONDS + 0.5
_KILL_SECONDS = watcher.KILLING_SECONDS + 0.5
_FIRST_FREE = 3
"""The lowest descriptor that is not stdin, stdout or stderr; a user may have closed those."""


class Process(Protocol):
    """A started program."""

    @property
    def pid(self) -> int:
        """Its process id; 0 until it is known."""
        ...

    @property
    def observed(self) -> str:
        """What it asked of the system, as JSON, once it has ended; empty if it was not observed."""
        ...

    def poll(self, seconds: float = 0.0) -> int | None:
        """Wait up to `seconds`; return the exit code or the negative signal, or None if the process still runs.

        Raises:
            OSError: the system could not start it.
        """
        ...

    def finish(self) -> tuple[str, ...]:
        """Wait for processes that the program left running; return the names of processes that had to be killed."""
        ...

    def kill(self) -> None:
        """Kill it with all its descendants before returning. Does nothing the second time."""
        ...


def started(
    command: Sequence[str],
    environment: Mapping[str, str],
    stdout: Stream,
    stderr: Stream,
    *,
    stdin: Stream = subprocess.DEVNULL,
    has_terminal: bool = False,
    inherited: Sequence[int] = (),
    observes: bool = False,
) -> Process:
    """Start a command, whose first word is a path; the command shares our terminal or has none.

    The command also gets the descriptors in `inherited`. With `observes`, its watcher, if there is one, reports what it
    asks of the system.

    Raises:
        OSError: the system cannot start it.
    """
    streams = stdin, stdout, stderr
    words, variables = list(command), dict(environment)
    if sys.platform != "linux":
        return Grouped(words, variables, streams, has_terminal=has_terminal, inherited=inherited)
    return WatchedProgram(words, variables, streams, has_terminal=has_terminal, inherited=inherited, observes=observes)


class Forked:
    """A program whose watcher, not a child of this process, reports through a socket; see `forking.py`."""

    def __init__(self, line: socket.socket) -> None:
        self.pid = 0
        self.observed = ""
        self._line = line
        self._buffer = b""
        self._status: int | None = None
        self._failed: int | None = None
        self._killed: list[str] = []
        self._is_closed = False

    @property
    def wants_restart(self) -> bool:
        """Whether a new process must do the work, because the fork did not start or requested a new process."""
        return self._status == RESTART or (self._status is not None and not self.pid)

    def poll(self, seconds: float = 0.0) -> int | None:
        """Wait up to `seconds` for the end; see `Process`."""
        if self._status is None:
            self._listen(seconds)
        if self._failed is not None:
            self._end_watching()
            raise OSError(self._failed, os.strerror(self._failed))
        return self._status

    def finish(self) -> tuple[str, ...]:
        """Wait for the processes that the program left running; see `Process`."""
        self._listen(_FINISH_SECONDS, to_the_end=True)
        self._end_watching()
        return tuple(self._killed)

    def kill(self) -> None:
        """Kill it with all its descendants; see `Process`."""
        if self._is_closed:
            return
        with suppress(OSError):  # the watcher has ended
            # Only our side: the watcher sees the end, kills everything, and can still say what it killed.
            self._line.shutdown(socket.SHUT_WR)
        self._listen(_KILL_SECONDS, to_the_end=True)
        self._end_watching()

    def _listen(self, seconds: float, *, to_the_end: bool = False) -> None:
        """For up to `seconds`, read messages from the watcher until the program or the stream ends."""
        until = time.monotonic() + seconds
        while not self._is_closed:
            left = until - time.monotonic()
            self._line.settimeout(max(left, 0.0))  # 0: do not block
            try:
                data = self._line.recv(65536)
            except (TimeoutError, BlockingIOError):
                return
            except OSError:
                data = b""
            if not data:
                self._end_watching()
                return
            *lines, self._buffer = (self._buffer + data).split(b"\n")
            for line in lines:
                self._handle(line.decode("utf-8", "replace"))
            if not to_the_end and self._status is not None:
                return

    def _handle(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        match word:
            case "started":
                self.pid = int(rest)
            case "failed":
                self._failed = int(rest)
            case "ended":
                self._status = int(rest)
            case "observed":
                self.observed = rest
            case "killed" | "survived":
                pid, _, name = rest.partition(" ")
                self._killed.append(f"{name} ({pid}{', which could not be killed' if word == 'survived' else ''})")

    def _end_watching(self) -> None:
        """Close the socket; a program whose status is not known counts as killed."""
        if self._is_closed:
            return
        self._is_closed = True
        self._line.close()
        if self._status is None:
            self._status = KILLED


class WatchedProgram(Forked):
    """A program whose watcher is a child of this process."""

    def __init__(
        self,
        command: list[str],
        environment: dict[str, str],
        streams: Streams,
        *,
        has_terminal: bool,
        inherited: Sequence[int] = (),
        observes: bool = False,
    ) -> None:
        group = 0
        if has_terminal:
            group = os.getpgrp()
        ours, theirs = socket_pair()
        try:
            self._watcher = subprocess.Popen(
                [
                    sys.executable,
                    # Isolated and without `site`: the watcher starts before any code of the user's environment, and
                    # needs none of it.
                    "-I",
                    "-S",
                    watcher.__file__,
                    *map(str, (theirs.fileno(), group, int(observes))),
                    *command,
                ],
                stdin=streams[0],
                stdout=streams[1],
                stderr=streams[2],
                env=environment,
                pass_fds=(theirs.fileno(), *inherited),
                process_group=0,
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        super().__init__(ours)
        self._orphans = Orphans(self._watcher.pid)

    def _end_watching(self) -> None:
        """Reap the watcher; if it was killed, kill the processes that it watched."""
        if self._is_closed:
            return
        super()._end_watching()
        with suppress(subprocess.TimeoutExpired):
            self._watcher.wait(0.5)  # the watcher has closed its end, or hangs
        self._watcher.kill()
        self._watcher.wait()
        # It was killed, or failed: then nobody has ended what it watched.
        if self._watcher.returncode != 0:
            self._orphans.kill()
        self._orphans.close()


def socket_pair(kind: int = socket.SOCK_STREAM) -> tuple[socket.socket, socket.socket]:
    """Create the socket between command line and watcher; its descriptors are above stderr, even if stdin is closed."""
    import fcntl

    ends = socket.socketpair(socket.AF_UNIX, kind)
    moved: list[socket.socket] = []
    try:
        for end in ends:
            moved.append(socket.socket(fileno=fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE)))  # noqa: PERF401
    except BaseException:
        for end in moved:
            end.close()
        raise
    finally:
        for end in ends:
            end.close()
    return moved[0], moved[1]


class Grouped:
    """A program in a process group, if the system has groups and the program does not need the keyboard."""

    observed = ""

    def __init__(
        self,
        command: list[str],
        environment: dict[str, str],
        streams: Streams,
        *,
        has_terminal: bool,
        inherited: Sequence[int] = (),
    ) -> None:
        reads_keys = has_terminal and sys.stdin is not None and sys.stdin.isatty()
        self._is_leader = os.name == "posix" and not reads_keys
        self._child = subprocess.Popen(
            command,
            stdin=streams[0],
            stdout=streams[1],
            stderr=streams[2],
            env=environment,
            pass_fds=tuple(inherited),
            process_group=0 if self._is_leader else None,
        )
        self.pid = self._child.pid

    def poll(self, seconds: float = 0.0) -> int | None:
        """Wait up to `seconds` for the end; see `Process`."""
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(seconds)
        return self._child.returncode

    def finish(self) -> tuple[str, ...]:
        """Wait for the processes that the program left running; see `Process`."""
        self.kill()
        return ()

    def kill(self) -> None:
        """Kill it with all its descendants; see `Process`."""
        if self._is_leader:
            # Usually nothing is left; macOS may report that with PermissionError.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._child.pid, signal.SIGKILL)
        if self._child.returncode is None:
            self._child.kill()
            self._child.wait()


_PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 36, 37  # linux/prctl.h
_lock = threading.Lock()
_open: "set[Orphans]" = set()
_was_subreaper = False
_others: frozenset[int] = frozenset()


class Orphans:
    """Adopts the processes of one watcher if that watcher dies."""

    def __init__(self, watcher_pid: int) -> None:
        self._watcher = watcher_pid
        with _lock:
            if not _open:
                _begin()
            _open.add(self)

    def kill(self) -> None:
        """Kill adopted children, which this process did not start, with all their descendants."""
        with _lock:
            # What this process itself has started, before or beside the program, is not the program's.
            ours = {each._watcher for each in _open} | _others
        adopted: set[int] = set()

        def below() -> list[int]:
            adopted.update(set(_children()) - ours)
            return [pid for each in adopted for pid in (each, *watcher.descendants(each))]

        watcher.kill_all(below, _reaping(lambda: set(_children()) - ours, adopted))

    def close(self) -> None:
        """Stop adopting; the last instance restores the process's subreaper setting."""
        with _lock:
            if self in _open:
                _open.remove(self)
                if not _open:
                    _end()


def _reaping(unknown: Callable[[], set[int]], adopted: set[int]) -> Callable[[], bool]:
    def reap() -> bool:
        for pid in list(adopted):
            try:
                ended = os.waitpid(pid, os.WNOHANG)[0]
            except ChildProcessError:
                ended = pid
            if ended:
                adopted.discard(pid)
        return bool(adopted or unknown())

    return reap


def _children() -> list[int]:
    return watcher.children(os.getpid())


def _begin() -> None:
    global _was_subreaper, _others
    found = ctypes.c_int()
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(found), 0, 0, 0)
    _was_subreaper, _others = bool(found.value), frozenset(_children())
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _end() -> None:
    if not _was_subreaper:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


class ToolOutput(Struct, frozen=True):
    """The output and exit status of a program."""

    status: int
    """Its exit code, or the negative signal."""
    out: bytes
    err: bytes

    @property
    def text(self) -> str:
        """Its stdout as text."""
        return self.out.decode("utf-8", "replace")

    @property
    def last_line(self) -> str:
        """The last line of its stderr."""
        return (self.err.decode("utf-8", "replace").strip().splitlines() or ["no output"])[-1]


def answer_of(command: Sequence[str], seconds: float, data: bytes = b"") -> ToolOutput:
    """Run a command, whose first word is a path, with `data` on its stdin.

    Raises:
        TimeoutError: it ran longer than `seconds` and was killed.
        OSError: the system cannot start it.
    """
    # Files, not pipes: nobody must read while the program writes.
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        stdin.write(data)
        stdin.seek(0)
        process = started(command, os.environ, out, err, stdin=stdin)
        until = time.monotonic() + seconds
        try:
            while (status := process.poll(0.05)) is None:
                if time.monotonic() > until:
                    msg = f"still running after {seconds:g} s"
                    raise TimeoutError(msg)
            process.finish()
        finally:
            process.kill()
        out.seek(0)
        err.seek(0)
        return ToolOutput(status, out.read(), err.read())

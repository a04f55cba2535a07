"""Start processes that can be killed with all their descendants: by a watcher on Linux, by process group elsewhere."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, Protocol

from ctrace.inspector.processes import watcher
from ctrace.inspector.processes.forking import RESTART
from ctrace.inspector.processes.orphans import Orphans

Stream = int | IO[bytes] | None
Streams = tuple[Stream, Stream, Stream]
"""stdin, stdout, stderr."""
KILLED = -9
"""The status of a killed process."""
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
    return Watched(words, variables, streams, has_terminal=has_terminal, inherited=inherited, observes=observes)


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


class Watched(Forked):
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
        group = os.getpgrp() if has_terminal else 0
        ours, theirs = socket_pair()
        try:
            self._watcher = subprocess.Popen(
                [
                    sys.executable,
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

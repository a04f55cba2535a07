"""The one owner of a capture's processes: the program, and all that it starts.

On Linux a watcher stands between (`watcher.py`): whatever ends the command line, SIGKILL included, ends them all. Where
there is no subreaper, on macOS and Windows, the program gets a process group where it needs no keyboard, and that group
is killed with it; what leaves the group, or runs on after a SIGKILL of the command line, survives there.
"""

import errno
import os
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ctrace.inspector.errors import SetupError
from ctrace.inspector.processes.spawned import KILLED, Process, Stream, started
from ctrace.inspector.runs.store import Run

_LIMITS = {
    errno.EAGAIN: "the system starts no more processes: end some, or raise ulimit -u",
    errno.ENOMEM: "there is no memory left: end other programs",
    errno.EMFILE: "too many files are open: raise ulimit -n",
    errno.ENFILE: "too many files are open on this system",
}


@dataclass
class ChildProcess:
    """The child process of one capture; other threads can end it, and ask what it takes."""

    environment: Mapping[str, str] = field(default_factory=dict)
    """Added to the child's environment."""
    cores: int | None = None
    """How many cores the capture may use; None: all."""
    has_terminal: bool = False
    """Whether the program shares our terminal: it can read the keyboard, and Ctrl-C reaches it."""
    run: Run | None = None
    """Where the capture is kept, once it began."""
    peak: int = 0
    """Bytes that the child has held at most so far; 0: the system does not tell."""
    left: tuple[str, ...] = ()
    """What the program left running when it ended, as `command (pid)`; all of it was killed."""
    _process: Process | None = None
    _end: threading.Event = field(default_factory=threading.Event)

    def began(self, run: Run | None) -> None:
        """Take note of the run, just before the child starts; None: it is not saved."""
        self.run = run

    def end(self) -> None:
        """Have the child killed soon, by the thread that looks after it."""
        self._end.set()

    @property
    def is_wanted(self) -> bool:
        """Whether nobody has asked for its end."""
        return not self._end.is_set()

    @contextmanager
    def running(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        stdout: Stream = None,
        stderr: Stream = None,
        inherited: Sequence[int] = (),
    ) -> Iterator[None]:
        """Start a command; when the block ends, it and all that it started have ended.

        `inherited` are descriptors that the command is to have, too.

        Raises:
            SetupError: the system does not start it.
        """
        try:
            self._process = started(
                command,
                {**environment, **self.environment},
                stdout,
                stderr,
                stdin=None if self.has_terminal else subprocess.DEVNULL,
                has_terminal=self.has_terminal,
                inherited=inherited,
            )
        except (OSError, RuntimeError) as error:
            raise cannot_start(error) from None
        try:
            yield
        finally:
            self._process.kill()

    def status(self) -> int | None:
        """Return the exit code, or the signal below zero; None while it runs.

        Once the program has ended, wait until what it left running has ended too.

        Raises:
            SetupError: the system did not start it.
        """
        process = self._process
        if process is None:
            return None
        self.peak = max(self.peak, _peak_of(process.pid))
        try:
            status = process.poll()
        except OSError as error:
            raise cannot_start(error) from None
        if status is not None:
            self.left = process.finish()
        return status

    def kill(self) -> int:
        """Kill the child with all that it started, and return its status."""
        if self._process is None:
            return KILLED
        self._process.kill()
        return self.status() or KILLED


def cannot_start(error: Exception) -> SetupError:
    """Say why the system starts no process or thread."""
    number = error.errno if isinstance(error, OSError) else errno.EAGAIN
    why = os.strerror(number) if number is not None else str(error)
    return SetupError(f"the program cannot be started: {why}", _LIMITS.get(number or 0, "see ctrace doctor"))


def _peak_of(pid: int) -> int:
    """Read what a process held in memory at most, in bytes; 0: it has ended, or this is no Linux."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    line = next((line for line in status.splitlines() if line.startswith("VmHWM:")), "")
    return int(line.split()[1]) * 1024 if line else 0

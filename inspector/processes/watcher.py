"""Run one program for the command line, and kill all its descendants when the program or the command line ends.

ctrace runs this file by its path on Linux, `python -I -S watcher.py FD GROUP OBSERVES COMMAND ...`. It imports nothing
from ctrace and little of Python (not even pathlib), so that it starts fast.

A process can outlive its parent, in a new session or as a daemon that forked twice. The process that adopts orphans
finds them all, so the watcher makes itself the subreaper of its descendants (prctl(2)). It has one end of a socket, and
only the command line has the other end: when that closes for any reason, including SIGKILL, the watcher kills
everything. It runs in a separate process group: terminal signals reach only the command line and the program.

It writes these lines: `started PID`, or `failed ERRNO` if the program cannot be started; `ended STATUS`, an exit code
or a negative signal; `killed PID NAME` for each process that the program left running; `survived PID NAME` for each
that it may not kill, such as another user's process. For a program that is observed, `observed JSON` follows `ended`:
what it asked of the system (`system_calls.Questions.facts`).
"""

import ctypes
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

LEAVING_SECONDS = 1.0
"""How long descendants, such as helpers of `multiprocessing`, may run after the program ends."""
TRACKER_SECONDS = 0.4
"""How long a resource tracker of `multiprocessing` may take to free the shared memory of killed processes."""
# Chosen: a killed process is gone at once, unless it is in a system call that cannot be interrupted.
KILLING_SECONDS = 1.0
OBSERVED = "observed="
"""The start of the last argument of a program that is observed; the rest is the descriptor for `system_calls.begin`."""
# Chosen: short beside KILLING_SECONDS; reaping has nothing to wait on for a process of another parent.
_PAUSE = 0.01
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h
# Chosen: a command line is named in a sentence.
_LONGEST_NAME = 60
_TRACKER = "multiprocessing.resource_tracker"
FAULTS = frozenset(
    getattr(signal, name) for name in ("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT") if hasattr(signal, name)
)
"""Signals that a fault in this process raises; a watcher leaves their handlers as they are."""


def descendants(root: int) -> list[int]:
    """Find all living descendants of a process, from the parents in /proc."""
    by_parent: dict[int, list[int]] = {}
    for pid, parent, is_living in _processes():
        if is_living:
            by_parent.setdefault(parent, []).append(pid)
    found: list[int] = []
    todo = [root]
    while todo:
        below = by_parent.get(todo.pop(), [])
        found += below
        todo += below
    return found


def children(parent: int) -> list[int]:
    """Find the children of a process, including zombies."""
    return [pid for pid, above, _ in _processes() if above == parent]


def _processes() -> Iterator[tuple[int, int, bool]]:
    """Yield every process: its id, its parent's id, and whether it is alive."""
    for name in _entries("/proc"):
        if not name.isdecimal():
            continue
        # The program's name, in parentheses, may contain anything.
        words = _read(f"/proc/{name}/stat").rpartition(")")[2].split()
        state, parent = words[:2] if len(words) > 1 else ("X", "0")  # the process has just ended
        yield int(name), int(parent), state not in "ZX"


def _entries(path: str) -> list[str]:
    try:
        return os.listdir(path)  # noqa: PTH208
    except OSError:  # /proc is not mounted: only children known by other means can be killed
        return []


def _read(path: str) -> str:
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            return file.read().decode("utf-8", "replace")
    except OSError:  # the process has ended
        return ""


def command_of(pid: int) -> str:
    """Return the command line of a process as one shortened line; empty if it has ended."""
    words = _read(f"/proc/{pid}/cmdline").replace("\0", " ") or _read(f"/proc/{pid}/comm")
    text = " ".join(words.split())
    if len(text) <= _LONGEST_NAME:
        return text
    return text[: _LONGEST_NAME - 1] + "…"


def is_tracker(pid: int) -> bool:
    """Whether a process is a resource tracker, which frees the shared memory of dead processes and then exits."""
    return _TRACKER in _read(f"/proc/{pid}/cmdline")


def kill_all(below: Callable[[], list[int]], reap: Callable[[], bool]) -> dict[int, str]:
    """Kill the processes that `below` returns until none is left, resource trackers last; return their names.

    `reap` collects ended processes and returns whether a child is left.
    """
    killed: dict[int, str] = {}
    began = time.monotonic()
    # Again and again: a process may fork between the list and its signal.
    while reap() and (passed := time.monotonic() - began) < KILLING_SECONDS:
        for pid in below():
            if passed > TRACKER_SECONDS or not is_tracker(pid):
                killed.setdefault(pid, command_of(pid))
                kill(pid)
        time.sleep(_PAUSE)
    return killed


def kill(pid: int) -> None:
    """Kill a process that may have ended already, or may belong to another user."""
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


class Watcher:
    """Starts the program, waits until the program or the command line ends, and kills what is left."""

    def __init__(self, line: int, group: int, command: list[str], observation: Any = None) -> None:
        """Prepare to run a command; `observation` is a `system_calls.Observation` if the program is to be observed."""
        self._observation = observation
        self._line = line
        self._group = group
        self._command = command
        self._environment = _environment()
        self._libc = ctypes.CDLL(None)
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(self._woken, False)
        # SIGCHLD writes to a pipe, so that one `select` waits for children, the command line and questions alike.
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        self._signals = _take_over_signals()
        self._own = os.getpid()
        self._program = 0
        self._status: int | None = None

    def run(self) -> None:
        """Run until the program and all its descendants are gone."""
        self._libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        if self._start():
            self._release_streams()
            self._tell(f"started {self._program}")
            is_wanted = self._wait(None, lambda: self._status is None)
            self._end_rest(is_wanted)

    def _start(self) -> bool:
        reading, writing = os.pipe()
        try:
            self._program = os.fork()
        except OSError as error:
            self._tell(f"failed {error.errno}")
            return False
        if self._program == 0:
            os.close(reading)
            self._become_program(writing)
        os.close(writing)
        if self._observation is not None:
            self._observation.begin_in_watcher(self._program)
        failed = os.read(reading, 32)  # ends when the program's image is loaded
        os.close(reading)
        if failed:
            self._tell(f"failed {failed.decode()}")
        return not failed

    def _become_program(self, writing: int) -> None:
        """Become the command, with the signals, the process group and the environment of the command line."""
        try:
            signal.set_wakeup_fd(-1)
            for number, handler in self._signals.items():
                signal.signal(number, handler)
            if self._group:
                os.setpgid(0, self._group)
            else:
                os.setsid()
            self._libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() == self._own:  # otherwise the watcher has died already
                observed = []
                if self._observation is not None:
                    observed = [f"{OBSERVED}{self._observation.end_of_program()}"]
                os.execve(self._command[0], [*self._command, *observed], self._environment)
        except OSError as error:
            os.write(writing, str(error.errno).encode())
        finally:
            os._exit(127)

    def _release_streams(self) -> None:
        """Close our copies of the program's pipes, so that readers see their end, and leave its working directory."""
        os.chdir("/")
        null = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(null, number)
        if null > 2:
            os.close(null)

    def _wait(self, seconds: float | None, goes_on: Callable[[], bool]) -> bool:
        """Wait while `goes_on()` is true; return False if the command line closes the socket meanwhile."""
        until = None
        if seconds is not None:
            until = time.monotonic() + seconds
        while self._reap() and goes_on():
            left = None
            if until is not None:
                left = until - time.monotonic()
            if left is not None and left <= 0:
                break
            ready = self._ready([self._line, self._woken], left)
            # The command line never writes: readable means closed.
            if self._line in ready:
                return False
            if self._woken in ready:
                os.read(self._woken, 4096)
        return True

    def _ready(self, descriptors: list[int], seconds: float | None) -> list[int]:
        """Wait for descriptors to become readable, or for a question of the program, which is handled; return them."""
        asked = None
        if self._observation is not None:
            asked = self._observation.descriptor
        ready, _, _ = select.select(descriptors if asked is None else [*descriptors, asked], [], [], seconds)
        if asked in ready:
            self._observation.serve()
        return ready

    def _reap(self) -> bool:
        """Collect children that have ended; return whether others are left."""
        try:
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                if found[0] == self._program:
                    self._status = os.waitstatus_to_exitcode(found[1])
                    self._tell(f"ended {self._status}")
                    if self._observation is not None:
                        self._tell(f"observed {self._observation.facts()}")
        except ChildProcessError:
            return False
        return True

    def _end_rest(self, is_wanted: bool) -> None:
        """Kill what is left; after a normal end, first give helpers time to exit."""
        if is_wanted:
            self._wait(LEAVING_SECONDS, lambda: True)
        killed = kill_all(lambda: descendants(os.getpid()), self._reap)
        killed.pop(self._program, None)
        survived = set()
        if self._reap():
            survived = set(descendants(os.getpid()))
        for pid, name in killed.items():
            self._tell(f"{'survived' if pid in survived else 'killed'} {pid} {name}")

    def _tell(self, text: str) -> None:
        data = f"{text}\n".encode("utf-8", "replace")
        try:
            while data:
                data = data[os.write(self._line, data) :]
        except OSError:  # the command line is gone
            return


def _environment() -> dict[bytes, bytes]:
    """Return the environment that this process started with; Python may add to `os.environ` (LC_CTYPE, PEP 538)."""
    try:
        with open("/proc/self/environ", "rb") as file:  # noqa: PTH123
            pairs = (pair.partition(b"=") for pair in file.read().split(b"\0") if pair)
            return {name: value for name, _, value in pairs}
    except OSError:
        return dict(os.environb)


def _take_over_signals() -> dict[int, signal.Handlers]:
    """Ignore all signals except SIGKILL; return the handlers to restore for the program."""
    found: dict[int, signal.Handlers] = {}
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        before = signal.getsignal(number)
        if before is None:  # a handler of the C library
            continue
        # Python ignores SIGPIPE and SIGXFSZ and handles SIGINT; a new process starts with the defaults.
        is_ignored = before is signal.SIG_IGN and number not in (signal.SIGPIPE, getattr(signal, "SIGXFSZ", None))
        found[number] = signal.SIG_IGN if is_ignored else signal.SIG_DFL
        try:
            # Faults of this process must not be caught: Python would return to the faulting instruction forever.
            if number not in FAULTS:
                signal.signal(number, lambda _number, _frame: None)
        except (OSError, ValueError):  # a signal that the C library reserves for threads
            found.pop(number)
    return found


def main() -> None:
    """Run and watch the command in the arguments."""
    line, group, observes, *command = sys.argv[1:]
    os.set_inheritable(int(line), False)
    Watcher(int(line), int(group), command, _observation() if int(observes) else None).run()


def _observation() -> Any:
    """Prepare to observe a program; the code lies beside this file, which belongs to no package here."""
    sys.path.insert(0, os.path.dirname(__file__))  # noqa: PTH120
    import system_calls  # type: ignore[import-not-found]

    del sys.path[0]
    return system_calls.Observation()


if __name__ == "__main__":
    main()

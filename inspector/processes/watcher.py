"""Stand between the command line and one program, and end all that the program started when either of them is gone.

Linux runs this file by its path, `python -I -S watcher.py FD GROUP COMMAND ...`, so it imports nothing of ctrace and
little of Python (not even pathlib): it must be up before the user notices.

What a process started can outlive it: in a session of its own, as a daemon that was forked twice. Whoever adopts the
orphans of a program finds them all. So this process makes itself the subreaper of its descendants (prctl(2)), and it
holds one end of a socket whose other end only the command line has: when that closes, for any reason, SIGKILL included,
everything is killed. It has a process group of its own: what a terminal sends reaches the command line and the program.

Lines that it writes: `started PID`, or `failed ERRNO` where the program cannot be started; `ended STATUS`, an exit code
or a signal below zero; `killed PID NAME` for each process that the program left running; `survived PID NAME` for each
that may not be killed, such as one of another user's.
"""

import ctypes
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator

LEAVING_SECONDS = 1.0
"""How long what a program started may take to end after it, as the helpers of `multiprocessing` do."""
TRACKER_SECONDS = 0.4
"""How long a resource tracker of `multiprocessing` may take to free shared memory whose users were all killed."""
KILLING_SECONDS = 1.0
_PAUSE = 0.01
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h
_LONGEST_NAME = 60
_TRACKER = "multiprocessing.resource_tracker"


def descendants(root: int) -> list[int]:
    """Find all living processes below one, from the parents that /proc names."""
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
    """Find the children of a process, also those that have ended and were not waited for."""
    return [pid for pid, above, _ in _processes() if above == parent]


def _processes() -> Iterator[tuple[int, int, bool]]:
    """Look at every process: its id, its parent's, and whether it lives."""
    for name in _entries("/proc"):
        if not name.isdecimal():
            continue
        # The name of the program, in parentheses, may hold anything.
        words = _read(f"/proc/{name}/stat").rpartition(")")[2].split()
        state, parent = words[:2] if len(words) > 1 else ("X", "0")  # it has just ended
        yield int(name), int(parent), state not in "ZX"


def _entries(path: str) -> list[str]:
    try:
        return os.listdir(path)  # noqa: PTH208
    except OSError:  # not mounted: only children that are known by other means can be ended
        return []


def _read(path: str) -> str:
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            return file.read().decode("utf-8", "replace")
    except OSError:  # it has ended
        return ""


def command_of(pid: int) -> str:
    """Return the command line of a process, on one line and cut where it is long; empty: it has ended."""
    words = _read(f"/proc/{pid}/cmdline").replace("\0", " ") or _read(f"/proc/{pid}/comm")
    text = " ".join(words.split())
    return text if len(text) <= _LONGEST_NAME else text[: _LONGEST_NAME - 1] + "…"


def is_tracker(pid: int) -> bool:
    """Whether a process frees the shared memory of others once they are gone; it ends by itself then."""
    return _TRACKER in _read(f"/proc/{pid}/cmdline")


def kill_all(below: Callable[[], list[int]], reap: Callable[[], bool]) -> dict[int, str]:
    """Kill what `below` finds until nothing is left, resource trackers last; return the names of what was killed.

    `reap` waits for processes that have ended and says whether any child is left.
    """
    killed: dict[int, str] = {}
    began = time.monotonic()
    while reap() and (passed := time.monotonic() - began) < KILLING_SECONDS:
        for pid in below():
            if passed > TRACKER_SECONDS or not is_tracker(pid):
                killed.setdefault(pid, command_of(pid))
                kill(pid)
        time.sleep(_PAUSE)
    return killed


def kill(pid: int) -> None:
    """Kill a process that may have ended, or that may belong to someone else."""
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


class _Watcher:
    """Starts the program, waits for its end or the command line's, and ends what is left."""

    def __init__(self, line: int, group: int, command: list[str]) -> None:
        self._line = line
        self._group = group
        self._command = command
        self._environment = _environment()
        self._libc = ctypes.CDLL(None)
        self._woken, wake = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(self._woken, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        self._signals = _take_over_signals()
        self._own = os.getpid()
        self._program = 0
        self._status: int | None = None

    def run(self) -> None:
        """Go on until the program and all that it started are gone."""
        self._libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        if self._start():
            self._let_go()
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
            self._become_program(writing)
        os.close(writing)
        failed = os.read(reading, 32)  # ends when the program's image is loaded
        os.close(reading)
        if failed:
            self._tell(f"failed {failed.decode()}")
        return not failed

    def _become_program(self, writing: int) -> None:
        """Run the command with the signals, the process group and the environment that the command line had."""
        try:
            signal.set_wakeup_fd(-1)
            for number, handler in self._signals.items():
                signal.signal(number, handler)
            if self._group:
                os.setpgid(0, self._group)
            else:
                os.setsid()
            self._libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() == self._own:  # else it died before it could be heard of
                os.execve(self._command[0], self._command, self._environment)
        except OSError as error:
            os.write(writing, str(error.errno).encode())
        finally:
            os._exit(127)

    def _let_go(self) -> None:
        """Leave pipes to the program alone, for whoever reads until all writers have closed them, and its folder."""
        os.chdir("/")
        null = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(null, number)
        if null > 2:
            os.close(null)

    def _wait(self, seconds: float | None, goes_on: Callable[[], bool]) -> bool:
        """Wait while `goes_on()`; return False if the command line has gone, or wants an end."""
        until = None if seconds is None else time.monotonic() + seconds
        while self._reap() and goes_on():
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                break
            ready, _, _ = select.select([self._line, self._woken], [], [], left)
            if self._line in ready:
                return False
            if self._woken in ready:
                os.read(self._woken, 4096)
        return True

    def _reap(self) -> bool:
        """Collect children that have ended; whether there are others."""
        try:
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                if found[0] == self._program:
                    self._status = os.waitstatus_to_exitcode(found[1])
                    self._tell(f"ended {self._status}")
        except ChildProcessError:
            return False
        return True

    def _end_rest(self, is_wanted: bool) -> None:
        """Kill what is left; where the program ended as it liked, first let its helpers do so too."""
        if is_wanted:
            self._wait(LEAVING_SECONDS, lambda: True)
        killed = kill_all(lambda: descendants(os.getpid()), self._reap)
        killed.pop(self._program, None)
        survived = set(descendants(os.getpid())) if self._reap() else set()
        for pid, name in killed.items():
            self._tell(f"{'survived' if pid in survived else 'killed'} {pid} {name}")

    def _tell(self, text: str) -> None:
        try:
            os.write(self._line, f"{text}\n".encode("utf-8", "replace"))
        except OSError:  # nobody listens any more
            return


def _environment() -> dict[bytes, bytes]:
    """Return the environment that this process was started with; Python itself may add to it (LC_CTYPE, PEP 538)."""
    try:
        with open("/proc/self/environ", "rb") as file:  # noqa: PTH123
            pairs = (pair.partition(b"=") for pair in file.read().split(b"\0") if pair)
            return {name: value for name, _, value in pairs}
    except OSError:
        return dict(os.environb)


def _take_over_signals() -> dict[int, signal.Handlers]:
    """Let no signal but SIGKILL end this process; return how the program is to find each of them."""
    found: dict[int, signal.Handlers] = {}
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        before = signal.getsignal(number)
        if before is None:  # a handler of the C library's own
            continue
        # Python ignores SIGPIPE and SIGXFSZ for itself, and handles SIGINT; a new process begins with the defaults.
        is_ignored = before is signal.SIG_IGN and number not in (signal.SIGPIPE, getattr(signal, "SIGXFSZ", None))
        found[number] = signal.SIG_IGN if is_ignored else signal.SIG_DFL
        try:
            # Faults of this process itself must not be caught: Python would return to the fault for ever.
            if number not in (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT):
                signal.signal(number, lambda _number, _frame: None)
        except (OSError, ValueError):  # one that the C library keeps for threads
            found.pop(number)
    return found


def main() -> None:
    """Watch over the command that the arguments name."""
    line, group, *command = sys.argv[1:]
    os.set_inheritable(int(line), False)
    _Watcher(int(line), int(group), command).run()


if __name__ == "__main__":
    main()

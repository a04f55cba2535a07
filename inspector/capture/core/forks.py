"""Run work in a fork of this process: the fork sees everything captured so far and writes to the same log.

This process and all its forks share the free cores (`Cores`): a small version of GNU make's job server.
"""

import ctypes
import gc
import os
import signal
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from os import close, fstat, read, write
from os.path import samestat

from ctrace.inspector.runs.capture_request import CORES


def fork(work: Callable[[], None]) -> int:
    """Run `work`, which must not raise, in a fork, and return its process id.

    The fork runs no signal handlers or exit functions of the program, and flushes none of its buffers.

    Raises:
        OSError: the system cannot start another process.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns if other threads exist
        pid = os.fork()
    if pid == 0:
        _work(work)
    return pid


def _work(work: Callable[[], None]) -> None:
    status = 1
    try:
        # Ctrl-C reaches the whole group of processes; the parent decides what becomes of its forks.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        # The program's handler would run in the fork, too, and end what it believes to be its own.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _die_with_parent()
        gc.disable()  # a collection would copy the parent's pages
        work()
        status = 0
    finally:
        # Past exit functions and buffers, which belong to the program and would run or be written twice.
        os._exit(status)


def exit_status(pid: int, *, block: bool = False) -> int | None:
    """Return a fork's exit status (negative for a signal, 0 if the program has reaped it), or None if it still runs."""
    try:
        found, status = os.waitpid(pid, 0 if block else os.WNOHANG)
    except ChildProcessError:
        return 0
    if found:
        return os.waitstatus_to_exitcode(status)
    return None


def end(pid: int) -> None:
    """Kill a fork whose result is no longer needed, and wait for it."""
    with suppress(ProcessLookupError):
        # It runs no code of the program that could be cut short, and its result is not wanted.
        os.kill(pid, signal.SIGKILL)
    exit_status(pid, block=True)


def _die_with_parent() -> None:
    """Make Linux kill this process when its parent dies; elsewhere it ends when its work is done."""
    if sys.platform == "linux":
        set_parent_death_signal = 1  # PR_SET_PDEATHSIG, linux/prctl.h
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)


# Import the functions of os by name: a program may replace the module's attributes.
_ONE = b"."


class Cores:
    """Hands out cores; when a fork ends, the fork or the process that waits for it returns the core."""

    def __init__(self, most: int | None = None) -> None:
        """Hand out as many cores as the system, the user and `most` allow, minus one for the program itself."""
        # Without the affinity, as on macOS, no core is handed out, so that nothing forks.
        count = 0
        if hasattr(os, "sched_getaffinity"):
            count = len(os.sched_getaffinity(0)) - 1
        share = os.environ.get(CORES, "")
        if share.isdecimal():
            count = min(count, int(share) - 1)
        if most is not None:
            count = min(count, most - 1)
        self._free, self._back = os.pipe()
        self._pipe = fstat(self._free)  # identifies the pipe; both ends have the same status
        # Who finds no core free goes on by itself instead of waiting for one.
        os.set_blocking(self._free, False)
        write(self._back, _ONE * max(min(count, 4096), 0))  # any pipe can hold 4096 bytes

    def take(self) -> bool:
        """Take a core if one is free."""
        try:
            return bool(read(self._free, 1))
        except OSError:  # no core is free, or the program closed the pipe
            return False

    def release(self) -> None:
        """Return a core."""
        try:
            write(self._back, _ONE)
        except OSError:  # the program closed the pipe: one process does the rest
            return

    def close(self) -> None:
        """Close the pipe once no fork holds a core."""
        for end in (self._free, self._back):
            with suppress(OSError):  # closed by the program
                if samestat(fstat(end), self._pipe):  # otherwise, another file has reused the number
                    close(end)
        self._free = self._back = -1

"""Run work in a fork of this process: the fork sees everything captured so far and writes to the same log."""

import ctypes
import gc
import os
import signal
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress


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
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _die_with_parent()
        gc.disable()  # a collection would copy the parent's pages
        work()
        status = 0
    finally:
        os._exit(status)


def exit_status(pid: int, *, block: bool = False) -> int | None:
    """Return a fork's exit status (negative for a signal, 0 if the program has reaped it), or None if it still runs."""
    try:
        found, status = os.waitpid(pid, 0 if block else os.WNOHANG)
    except ChildProcessError:
        return 0
    return os.waitstatus_to_exitcode(status) if found else None


def end(pid: int) -> None:
    """Kill a fork whose result is no longer needed, and wait for it."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    exit_status(pid, block=True)


def _die_with_parent() -> None:
    """Make Linux kill this process when its parent dies; elsewhere it ends when its work is done."""
    if sys.platform == "linux":
        set_parent_death_signal = 1  # PR_SET_PDEATHSIG, linux/prctl.h
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)

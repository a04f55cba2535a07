"""Fork this process, which has imported what programs need, and watch the fork as `watcher.py` watches a program.

A process that serves forks calls `fork_and_watch`. That forks a watcher for the job, and the watcher forks the program.
So each job has its own subreaper, and ends with all its descendants when the command line closes the job's socket.
"""

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NoReturn, Protocol

from ctrace.inspector.processes.system_calls import Observation, begin
from ctrace.inspector.processes.watcher import FAULTS, Watcher

RESTART = 113
"""The exit code of a fork that requests a new process in its place."""
WARMED = 114
"""The exit code of a capture whose eager call changed what the first compiled call finds; see `COMPILES_FIRST`."""
COMPILES_FIRST = "compiles-first"
"""The argument of a capture that makes no eager call before the first compiled call."""
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


class Closeable(Protocol):
    """A socket or a file."""

    def close(self) -> None:
        """Close it."""
        ...


class _ProgramStartsError(BaseException):
    """Unwinds the watcher's code in the process that becomes the program."""


def fork_and_watch(
    line: int, stdout: int, stderr: int, unneeded: Sequence[Closeable], *, observes: bool = True
) -> bool:
    """Fork a watcher, which forks the program; return True in the program, False in this process.

    The watcher talks to the command line through the socket `line`, with the messages of `watcher.py`. The program
    writes to the descriptors `stdout` and `stderr`. The forks close `unneeded`. With `observes`, the watcher reports
    what the program asks of the system.

    Raises:
        OSError: the system cannot start another process.
    """
    # Before the fork: the watcher takes all signals over, and the program must get those of this process.
    handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
    if os.fork():
        return False
    try:
        for each in unneeded:
            each.close()
        _ForkingWatcher(line, stdout, stderr, handlers, Observation() if observes else None).run()
    except _ProgramStartsError:
        return True
    except BaseException:
        _end_with_traceback()
    os._exit(0)


def _end_with_traceback() -> NoReturn:
    """End a watcher that failed; the command line sees its socket close."""
    with suppress(Exception):
        sys.excepthook(*sys.exc_info())
    os._exit(1)


class _ForkingWatcher(Watcher):
    """Watches a program that is a fork of this process."""

    def __init__(
        self, line: int, stdout: int, stderr: int, handlers: dict[Any, Any], observation: Observation | None
    ) -> None:
        super().__init__(line, 0, [], observation)
        self._handlers = handlers
        self._outputs = stdout, stderr

    def _release_streams(self) -> None:
        super()._release_streams()
        for number in set(self._outputs):
            os.close(number)

    def _become_program(self, writing: int) -> None:
        """Become the program: restore what the watcher changed, and connect the streams.

        Raises:
            _ProgramStartsError: always, to leave the watcher's code.
        """
        try:
            self._restore_signals()
            os.setsid()
            self._libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            # Asked after `prctl`: a watcher that died before it sends no signal any more.
            if os.getppid() != self._own:  # the watcher has died already
                os._exit(127)
            for number, output in enumerate(self._outputs, 1):
                os.dup2(output, number)
            for number in {*self._outputs, self._line, self._woken, self._wake}:
                os.close(number)
            if self._observation is not None:
                begin(self._observation.end_of_program())
        except OSError as error:
            os.write(writing, str(error.errno).encode())
            os._exit(127)
        os.close(writing)
        # An exception, so that no frame of the watcher stays below the program's.
        raise _ProgramStartsError

    def _restore_signals(self) -> None:
        signal.set_wakeup_fd(-1)
        for number, handler in self._handlers.items():
            if handler is not None and number not in (*FAULTS, signal.SIGKILL, signal.SIGSTOP):
                with suppress(OSError, ValueError):  # a signal that the C library reserves for threads
                    signal.signal(number, handler)

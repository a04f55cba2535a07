"""End a call that takes too long: odd inputs may send a loop round for ever."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_REPEAT_SECONDS = 1.0


class CallTooLongError(BaseException):
    """A call took too long; no `except Exception` of the program catches it."""


@contextmanager
def ending_after(seconds: float) -> Iterator[None]:
    """Raise in the block after a time, where the system has timers that send a signal (not on Windows).

    The signal comes again each second: a bare `except` of the program may catch one. A single call into C++ that never
    returns is not interrupted; the time limit of the whole process ends it.

    Raises:
        CallTooLongError: the block took too long.
    """
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return
    is_active = True

    def end(_number: int, _frame: FrameType | None) -> None:
        if is_active:
            raise CallTooLongError

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds, _REPEAT_SECONDS)
    try:
        yield
    finally:
        is_active = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

"""How a command ends that others end: as Ctrl-C ends it, so that what it started ends too."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

_ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


@contextmanager
def ending_in_order() -> Iterator[None]:
    """Have signals that would end Python at once raise SystemExit instead, with the exit code that shells give them."""

    def end(number: int, _frame: object) -> NoReturn:
        raise SystemExit(128 + number)

    # What nohup has Python ignore stays ignored; None is a handler that is not Python's, and cannot be put back.
    heard = [number for number in _ENDING if signal.getsignal(number) not in (signal.SIG_IGN, None)]
    before = {number: signal.signal(number, end) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

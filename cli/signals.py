"""End a command in order when a signal asks for it, so that what it started ends too."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

_ENDING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class EndedBySignal(SystemExit):
    """Ends the command with the exit code that shells give to a signal."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.name = signal.Signals(number).name


@contextmanager
def ending_in_order() -> Iterator[None]:
    """Have signals that would end Python at once, or as an error, raise `EndedBySignal` instead."""

    def end(number: int, _frame: object) -> NoReturn:
        raise EndedBySignal(number)

    # What nohup has Python ignore stays ignored; None is a handler that is not Python's, and cannot be put back.
    heard = [number for number in _ENDING if signal.getsignal(number) not in (signal.SIG_IGN, None)]
    before = {number: signal.signal(number, end) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

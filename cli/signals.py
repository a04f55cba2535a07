"""End a command cleanly on a signal, so that the processes it started end too."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

_ENDING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class EndedBySignal(SystemExit):
    """Ends the command with a shell's exit code for the signal: 128 + number."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.name = signal.Signals(number).name


@contextmanager
def ending_in_order() -> Iterator[None]:
    """Raise `EndedBySignal` on signals that would otherwise end Python at once or with an error."""

    def end(number: int, _frame: object) -> NoReturn:
        raise EndedBySignal(number)

    # Signals that nohup ignores stay ignored. None is a handler not set by Python, which cannot be restored.
    handled = [number for number in _ENDING if signal.getsignal(number) not in (signal.SIG_IGN, None)]
    before = {number: signal.signal(number, end) for number in handled}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def ending_signal(error: BaseException | None) -> EndedBySignal | None:
    """Return the signal that an exception was raised from, if there is one.

    Before Python 3.12, what is raised in `__set_name__` comes out of a class body as RuntimeError. A signal arrives
    there now and then, since importing libcst calls hundreds of those.
    """
    while error is not None and not isinstance(error, EndedBySignal):
        error = error.__cause__
    return error

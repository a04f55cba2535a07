"""Keep a handler attached to a logger when the program switches logging off.

Programs do that, mostly without having torch in mind: `logging.config.dictConfig` disables every logger that it does
not name, `logging.disable` silences all loggers, `torch._logging.set_logs` and test runners clear handlers. ctrace
would lose its records, because torch writes nothing without `trace_log.handlers` (torch/_logging/_internal.py:1494,
2.13).
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_KEPT = "_ctrace_kept"


class _KeptLogger(logging.Logger):
    """A logger that cannot be switched off for ctrace's handlers; other handlers behave as usual."""

    @property
    def handlers(self) -> list[logging.Handler]:
        """The handlers, always including the kept ones."""
        handlers: list[logging.Handler] = self.__dict__["handlers"]
        handlers += [each for each in self.__dict__[_KEPT] if each not in handlers]
        return handlers

    @handlers.setter
    def handlers(self, value: list[logging.Handler]) -> None:
        self.__dict__["handlers"] = value

    @property
    def isEnabledFor(self) -> Callable[[int], bool]:  # noqa: N802 - logging's name
        """Whether any handler receives records of a level; a property, because torch sets an attribute of this name."""
        return lambda _level: True

    @isEnabledFor.setter
    def isEnabledFor(self, value: Any) -> None:  # noqa: N802 - as above
        self.__dict__["isEnabledFor"] = value

    def handle(self, record: logging.LogRecord) -> None:
        """Pass a record to ctrace's handlers, and to the others if the logger is enabled."""
        kept = tuple(self.__dict__[_KEPT])
        for each in kept:
            each.handle(record)
        if self.disabled or record.levelno < self.level or not self.filter(record):
            return
        for each in tuple(self.handlers):
            if each not in kept and record.levelno >= each.level:
                each.handle(record)
        if self.propagate and self.parent is not None:
            self.parent.callHandlers(record)


@contextmanager
def kept(logger: logging.Logger, handler: logging.Handler) -> Iterator[None]:
    """Add a handler that receives every record of the logger, whatever the program does to logging."""
    about: dict[str, Any] = logger.__dict__
    before = type(logger)
    about.setdefault(_KEPT, []).append(handler)
    # The class, not the object: other modules hold references to the logger.
    logger.__class__ = _KeptLogger
    try:
        yield
    finally:
        about[_KEPT].remove(handler)
        if handler in about["handlers"]:
            about["handlers"].remove(handler)
        if not about[_KEPT]:
            del about[_KEPT]
            logger.__class__ = before if before is not _KeptLogger else logging.Logger

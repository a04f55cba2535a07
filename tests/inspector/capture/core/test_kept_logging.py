"""Handlers that receive a logger's records whatever a program does to logging."""

import logging
import logging.config
from collections.abc import Callable, Iterator

import pytest

from ctrace.inspector.capture.core.trace_log import kept


class _Heard(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    others = [each for each in logging.root.manager.loggerDict.values() if isinstance(each, logging.Logger)]
    enabled = [each for each in others if not each.disabled]
    logger = logging.getLogger("tests.kept")
    logger.setLevel(logging.DEBUG)
    yield logger
    logging.disable(logging.NOTSET)
    for each in enabled:  # later tests in this process need the loggers that `dictConfig` disables
        each.disabled = False


def _configured(_logger: logging.Logger) -> None:
    """Disable every existing logger, as `dictConfig` does by default."""
    logging.config.dictConfig({"version": 1, "root": {"level": "WARNING"}})


SWITCHES: dict[str, Callable[[logging.Logger], object]] = {
    "disable": lambda _logger: logging.disable(logging.CRITICAL),
    "disabled": lambda logger: setattr(logger, "disabled", True),
    "level": lambda logger: logger.setLevel(100),
    "cleared": lambda logger: logger.handlers.clear(),
    "replaced": lambda logger: setattr(logger, "handlers", []),
    "removed": lambda logger: list(map(logger.removeHandler, list(logger.handlers))),
    "filtered": lambda logger: logger.addFilter(lambda _record: False),
    "torch": lambda logger: setattr(logger, "isEnabledFor", lambda _level: False),
    "configured": _configured,
}


@pytest.mark.parametrize("name", SWITCHES)
def test_it_hears_after_logging_was_switched_off(name: str, logger: logging.Logger) -> None:
    heard = _Heard()
    with kept(logger, heard):
        SWITCHES[name](logger)
        assert logger.handlers
        logger.debug("still here")
    assert heard.texts == ["still here"]
    logger.__dict__.pop("isEnabledFor", None)
    logger.filters.clear()
    logger.disabled = False


def test_others_hear_what_they_would_have_heard(logger: logging.Logger) -> None:
    heard, other = _Heard(), _Heard()
    logger.addHandler(other)
    with kept(logger, heard):
        logger.disabled = True
        logger.warning("one")
        logger.disabled = False
        logger.warning("two")
    logger.warning("three")
    logger.removeHandler(other)
    assert (heard.texts, other.texts) == (["one", "two"], ["two", "three"])


def test_nothing_of_it_stays(logger: logging.Logger) -> None:
    with kept(logger, _Heard()), kept(logger, _Heard()):
        pass
    assert (type(logger), logger.handlers) == (logging.Logger, [])

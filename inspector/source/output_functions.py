"""Functions that only put out text, by name: advice on breaks asks about source, repairs about a syntax tree."""

import re

_PRINTS = frozenset(("pprint.pprint", "sys.stdout.write", "sys.stderr.write"))
_LEVELS = frozenset(
    "debug info warning warn error critical exception log warning_once info_once".split()  # noqa: SIM905 - one line
)
_LOGGERS = ("logger", "logging", "_log")
_MAKES_LOGGER = re.compile(r"get_?logger\(", re.IGNORECASE)


def output_kind(called: str) -> str:
    """Return how a function puts out text: `print`, `warn`, `log`, or `write` in another way; empty: it does more.

    `called` is as the source names it, such as `self.logger.info` or `logging.getLogger(__name__).info`.
    """
    owner, _, name = called.rpartition(".")
    if called == "print":
        return "print"
    if called == "warnings.warn":
        return "warn"
    if called in _PRINTS:
        return "write"
    if name in _LEVELS and _is_logger(owner):
        return "log"
    return ""


def _is_logger(owner: str) -> bool:
    """Whether a name is one that programs give to loggers: `log`, `self.logger`, `logging`, `_LOG`, not `catalog`."""
    if owner.endswith(")"):
        return _MAKES_LOGGER.search(owner) is not None
    # Known by its name only: the text does not say what type it has.
    name = owner.rpartition(".")[2].lower()
    return name == "log" or name.endswith(_LOGGERS)

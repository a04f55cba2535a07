"""Decide whether a change is for the worse, the better, or neither."""

import re

from ctrace.inspector.features.upgrade.upgrade_model import UpgradeChange

_VERDICTS = ("compiled", "partial", "not_compiled", "failed")
_MORE_IS_WORSE = frozenset(("break", "skip", "recompile", "accuracy"))
_BYTES = re.compile(r"([\d,]+) bytes")
_COVERAGE = re.compile(r"(\d+) of (\d+) ops")
_TIMES = re.compile(r"(\d+) times")
_NUMBER = re.compile(r"[\d.]+")


def worse(change: UpgradeChange, moved: tuple[int, int] | None = None) -> bool | None:
    """Return whether the later environment is worse in this; None: neither is known to be.

    Args:
        change: A change.
        moved: The bytes that all kernels of the model move, before and after: what one kernel moves more, another one
            may move less, so a kernel counts only if all of them together do.
    """
    if change.what in _MORE_IS_WORSE and change.how != "changed":
        return change.how == "added"
    if change.was is None or change.now is None:
        return None
    pair = change.was, change.now
    match change.what:
        case "verdict":
            return _verdict(*pair)
        case "recompile":
            return _more(*(_numbers(_TIMES, each) for each in pair))
        case "coverage":
            return _more(*(_in_eager(each) for each in pair))
        case "kernel":
            found = _more(*(_numbers(_BYTES, each) for each in pair))
            return found if moved is not None and found is _more(*moved) else None
        case "time" | "guard cost":
            return _more(*(_numbers(_NUMBER, each) for each in pair))
        case _:
            return None


def _verdict(was: str, now: str) -> bool | None:
    if was not in _VERDICTS or now not in _VERDICTS:
        return None
    return _VERDICTS.index(now) > _VERDICTS.index(was)


def _more(was: float | None, now: float | None) -> bool | None:
    return None if was is None or now is None or was == now else now > was


def _numbers(pattern: re.Pattern[str], text: str) -> float | None:
    found = pattern.findall(text)
    return float(found[0].replace(",", "")) if len(found) == 1 else None


def _in_eager(text: str) -> float | None:
    match = _COVERAGE.match(text)
    return None if match is None else float(match[2]) - float(match[1])

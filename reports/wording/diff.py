"""Sentences about the differences between two runs, which the screen and Markdown share."""

from collections.abc import Iterable

from ctrace.inspector.features.compare.diff.changes import Change, How, RunDiff, What, size_of
from ctrace.inspector.features.compare.diff.compare import counts
from ctrace.reports import format as fmt

_PLURALS = {
    What.VERDICT: "verdict",
    What.BREAK: "graph breaks",
    What.SKIP: "functions that run eagerly",
    What.RECOMPILE: "recompilations",
    What.GUARD: "guards",
    What.GRAPH: "graphs",
    What.FUSION: "fusion",
    What.KERNEL: "kernels",
    What.COVERAGE: "coverage",
    What.ACCURACY: "accuracy",
    What.TIME: "compile time",
    What.CACHE: "caches",
}


def name_of(what: What) -> str:
    """Return the word for a kind of change on screens."""
    return _PLURALS[what]


def answer(found: RunDiff) -> str:
    """Say in one sentence what differs."""
    if found.equal:
        names = fmt.listed((_PLURALS[what] for what in found.compared), len(What))
        return f"No differences in {names}."
    parts = [f"{_PLURALS[what]} ({numbers(by_how)})" for what, by_how in counts(found.changes).items()]
    return f"Different: {', '.join(parts)}."


def numbers(by_how: dict[How, int]) -> str:
    """Write `2 added, 1 changed`."""
    return ", ".join(f"{by_how[how]} {how}" for how in How if how in by_how)


def folded(found: RunDiff, where: str) -> str:
    """Say in one line which changes follow from other settings, and where they are listed; empty if none do."""
    number = sum(map(size_of, found.consequences))
    if not number:
        return ""
    differ = "differs" if number == 1 else "differ"
    return f"{fmt.count(number, 'kernel')} {differ}, as the settings do: see {where}"


def not_compared(found: RunDiff) -> list[str]:
    """Say what was not compared, and why; kinds with the same reason share a line."""
    by_reason: dict[str, list[str]] = {}
    for what, why in found.not_compared:
        by_reason.setdefault(why, []).append(_PLURALS[what])
    return [f"Not compared: {', '.join(names)} ({why})" for why, names in by_reason.items()]


def places(changes: Iterable[Change]) -> dict[str, list[Change]]:
    """Group changes by place."""
    found: dict[str, list[Change]] = {}
    for change in changes:
        found.setdefault(change.where, []).append(change)
    return found

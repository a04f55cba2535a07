"""Sentences about the differences between two runs, which the screen and Markdown share."""

import shlex
from collections.abc import Iterable
from pathlib import PurePath
from typing import assert_never

from ctrace.inspector.features.compare.changes import (
    Change,
    ChangeKind,
    Direction,
    Measure,
    Number,
    RunDiff,
    What,
    WorseSide,
    size_of,
)
from ctrace.inspector.features.compare.compare_runs import counts
from ctrace.inspector.grouping import collected, grouped
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
    What.MEMORY: "memory",
    What.TIME: "compile time",
    What.CACHE: "caches",
}


_NUMBERS = {
    Number.WRONG_RESULTS: "wrong results",
    Number.BREAKS: "graph breaks",
    Number.SKIPS: "functions that run eagerly",
    Number.RECOMPILES: "recompilations",
    Number.OPS_IN_EAGER: "ops outside of graphs",
    Number.GRAPHS: "graphs",
}
_YES_OR_NO = {
    Number.ERRORS: ("no error any more", "it fails with an error"),
    Number.WITHOUT_GRAPH: ("it is compiled now", "nothing is compiled any more"),
    Number.LIMIT_HIT: ("the recompile limit is not hit any more", "the recompile limit is hit"),
}
"""Numbers that are 0 or 1: in words, what became of them."""


def headword(found: RunDiff) -> str:
    """Return the first word of the answer, in lower case."""
    if found.equal:
        return "equal"
    direction = found.judgement.direction
    if direction in (Direction.WORSE, Direction.BETTER):
        return str(direction)
    return "different"


def short_name(before: str, after: str) -> str:
    """Return the later run's name without its folder, if that tells it from the earlier one."""
    one, other = (PurePath(name).name for name in (before, after))
    if other and one != other and " " not in after:
        return other
    return after


def judged(judgement: WorseSide, after: str) -> str:
    """Say which run compiled better, and by which numbers; `after` is the name of the later one."""
    moved = {
        direction: fmt.listed((_moved(each) for each in judgement.changed if each.direction is direction), 9)
        for direction in (Direction.WORSE, Direction.BETTER, Direction.SAME)
    }
    worse, better, graphs = moved.values()
    graphs = fmt.framed("; ", graphs)
    match judgement.direction:
        case Direction.WORSE:
            return f"{after} is worse: {worse}{graphs}."
        case Direction.BETTER:
            return f"{after} is better: {better}{graphs}."
        case Direction.MIXED:
            return f"{after} is worse in some numbers ({worse}) and better in others ({better}){graphs}."
        case Direction.SAME:
            equal = fmt.listed((_NUMBERS[each.number] for each in judgement.measures if each.number in _COMPARED), 9)
            if equal:
                return f"Neither run is worse: equal numbers of {equal}{graphs}."
            return ""
        case Direction.UNKNOWN:
            numbers = fmt.listed(map(_moved, judgement.changed), 9)
            if numbers:
                return f"Neither run is called worse: {judgement.why_unknown} ({numbers})."
            return f"Neither run is called worse: {judgement.why_unknown}."
        case _:
            assert_never(judgement.direction)


_COMPARED = (Number.BREAKS, Number.SKIPS, Number.RECOMPILES, Number.OPS_IN_EAGER)
"""The numbers that a sentence about equal runs names."""


def _moved(each: Measure) -> str:
    if each.number in _YES_OR_NO:
        return _YES_OR_NO[each.number][each.now > each.was]
    return f"{_NUMBERS[each.number]} {each.was} → {each.now}"


def next_command(found: RunDiff, after: str | None) -> str:
    """Return the command that shows more about the later run; empty without a name for it, or without a difference."""
    if found.equal or not after:
        return ""
    only = {each.number for each in found.judgement.changed if each.direction is Direction.WORSE}
    # Of several kinds, only explain shows all.
    view = "recompiles" if only == {Number.RECOMPILES} else "explain"
    return f"ctrace {view} {shlex.quote(after)}"


def name_of(what: What) -> str:
    """Return the word for a kind of change on screens."""
    return _PLURALS[what]


def answer(found: RunDiff) -> str:
    """Say in one sentence what differs."""
    if found.equal:
        names = fmt.listed((_PLURALS[what] for what in found.compared), len(What))
        return f"No differences in {names}."
    parts = [f"{_PLURALS[what]} ({numbers(by_how)})" for what, by_how in counts(found.changes).items()]
    return f"Different: {', '.join(parts)}.{_grown(found)}"


def _grown(found: RunDiff) -> str:
    """Name the peaks, and the line that grew most; empty: no memory differs."""
    growth = found.memory
    if growth is None or not any(each.what is What.MEMORY for each in found.changes):
        return ""
    peaks = f" Peak memory {fmt.memory(growth.was.bytes)} → {fmt.memory(growth.now.bytes)}"
    most = next((each for each in growth.lines if each.now > each.was), None)
    # A lower peak has lines that grew, too, and they are no reason.
    if growth.now.bytes <= growth.was.bytes or most is None:
        return f"{peaks}."
    return f"{peaks}; most of what grew is at {most.where} (+{fmt.memory(most.now - most.was)})."


def numbers(by_how: dict[ChangeKind, int]) -> str:
    """Write `2 added, 1 changed`."""
    return ", ".join(f"{by_how[how]} {how}" for how in ChangeKind if how in by_how)


def folded(found: RunDiff, where: str) -> str:
    """Say in one line which changes follow from other settings, and where they are listed; empty if none do."""
    number = sum(map(size_of, found.consequences))
    if not number:
        return ""
    return f"{fmt.count(number, 'kernel differs', 'kernels differ')}, as the settings do: see {where}"


def not_compared(found: RunDiff) -> list[str]:
    """Say what was not compared, and why; kinds with the same reason share a line."""
    by_reason = collected((why, _PLURALS[what]) for what, why in found.not_compared)
    return [f"Not compared: {', '.join(names)} ({why})" for why, names in by_reason.items()]


def places(changes: Iterable[Change]) -> dict[str, list[Change]]:
    """Group changes by place."""
    return grouped(changes, lambda change: change.where)

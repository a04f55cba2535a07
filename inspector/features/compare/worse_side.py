"""Judge which of two runs compiled better, by numbers of which fewer is better."""

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import ClassVar

from msgspec import Struct

from ctrace.inspector.facts.findings import BreakKind
from ctrace.inspector.facts.session import Session, Verdict

DIFFERENT_CALLS = "the runs made different calls"


class Direction(StrEnum):
    """How the later run compares with the earlier one."""

    WORSE = "worse"
    BETTER = "better"
    MIXED = "mixed"
    """Worse in one number, better in another."""
    SAME = "same"
    """All numbers that say so are equal."""
    UNKNOWN = "unknown"
    """The runs made different calls, or one of them is incomplete, so more is not worse."""


class Number(StrEnum):
    """What is counted."""

    ERRORS = "errors"
    """1 for a run that failed."""
    WRONG_RESULTS = "wrong_results"
    WITHOUT_GRAPH = "without_graph"
    """1 for a run in which nothing was compiled."""
    BREAKS = "breaks"
    SKIPS = "skips"
    RECOMPILES = "recompiles"
    LIMIT_HIT = "limit_hit"
    """1 for a run that hit the recompile limit."""
    OPS_IN_EAGER = "ops_in_eager"
    GRAPHS = "graphs"


class Measure(Struct, frozen=True):
    """A number of both runs."""

    JSON: ClassVar[str] = "what=number was now direction"
    number: Number
    was: int
    now: int

    @property
    def direction(self) -> Direction:
        """How the later number compares; `same` for graphs: breaks add some, and so does more compiled code."""
        if self.number is Number.GRAPHS or self.was == self.now:
            return Direction.SAME
        if self.now > self.was:
            return Direction.WORSE
        return Direction.BETTER


class WorseSide(Struct, frozen=True):
    """Which of two runs compiled better, and by which numbers."""

    direction: Direction = Direction.SAME
    measures: tuple[Measure, ...] = ()
    """Those that both runs have, the most important first."""
    why_unknown: str = ""
    """Why neither run is called worse."""

    @property
    def changed(self) -> tuple[Measure, ...]:
        """The numbers that differ."""
        return tuple(each for each in self.measures if each.was != each.now)


def judge(before: Session, after: Session) -> WorseSide:
    """Compare the numbers of two runs.

    A run that failed has no other numbers: it ended before it showed them.
    """
    why = _why_unknown(before, after)
    failed = Measure(Number.ERRORS, _failed(before), _failed(after))
    if failed.was or failed.now:
        return _judged((failed,), "both runs failed" if failed.was == failed.now else why)
    return _judged(tuple(_measures(before, after)), why)


def without_direction(judgement: WorseSide, why: str) -> WorseSide:
    """Return a judgement that calls neither run worse."""
    return WorseSide(Direction.UNKNOWN, judgement.measures, why)


def _judged(measures: tuple[Measure, ...], why_unknown: str) -> WorseSide:
    found = {each.direction for each in measures} - {Direction.SAME}
    if why_unknown:
        direction = Direction.UNKNOWN
    elif len(found) > 1:
        direction = Direction.MIXED
    else:
        direction = next(iter(found), Direction.SAME)
    return WorseSide(direction, measures, why_unknown)


def _why_unknown(before: Session, after: Session) -> str:
    both = (("first", before), ("second", after))
    cut = [name for name, each in both if each.verdict is Verdict.INCOMPLETE]
    if cut:
        if len(cut) > 1:
            return "both runs are incomplete"
        return f"the {cut[0]} run is incomplete"
    by_ctrace = [name for name, each in both if each.environment.ctrace]
    if len(by_ctrace) == 1:
        return f"ctrace recorded only the {by_ctrace[0]} run, and a log of torch has less"
    if _calls(before) != _calls(after):
        return DIFFERENT_CALLS
    return ""


def _calls(session: Session) -> object:
    """Return how a run called its model; the calls of a program are not recorded.

    Where a number grew between the calls, a scenario is called more often, so the number of calls is a result.
    """
    return [(each.name, each.training) for each in session.scenarios]


def _measures(before: Session, after: Session) -> Iterator[Measure]:
    for number, counted in _COUNTED.items():
        was, now = counted(before), counted(after)
        if was is not None and now is not None:
            yield Measure(number, was, now)


def _failed(session: Session) -> int:
    return int(session.verdict is Verdict.FAILED)


def _in_eager(session: Session) -> int | None:
    coverage = session.coverage
    if coverage.ops is None or coverage.compiled is None:
        return None
    return coverage.ops - coverage.compiled


_COUNTED: dict[Number, Callable[[Session], int | None]] = {
    Number.WRONG_RESULTS: lambda session: None if session.compared is None else len(session.dangers),
    Number.WITHOUT_GRAPH: lambda session: int(session.verdict is Verdict.NOT_COMPILED),
    Number.BREAKS: lambda session: sum(each.kind is BreakKind.BREAK for each in session.breaks),
    Number.SKIPS: lambda session: len(session.skips),
    Number.RECOMPILES: lambda session: len(session.recompiles),
    Number.LIMIT_HIT: lambda session: int(session.limit.hit),
    Number.OPS_IN_EAGER: _in_eager,
    Number.GRAPHS: lambda session: len(session.graphs),
}
"""Each number of a run, the most important first; None: not measured."""

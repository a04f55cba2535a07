"""What a comparison finds (`Change`, `RunDiff`, `DiffDocument`), and what decides which of two runs compiled better.

`judge` decides by numbers of which fewer is better. `site_changes` compares breaks, skips, recompilations and wrong
results, matched as the gate matches them.
"""

from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import ClassVar

from msgspec import Struct

from ctrace.inspector.diagnosis.advice_sites import sites_of
from ctrace.inspector.facts.findings import BreakKind
from ctrace.inspector.facts.memory_facts import MemoryPeak
from ctrace.inspector.facts.session import Session, Verdict
from ctrace.inspector.facts.sites import Known, Site, SiteKey, SiteKind
from ctrace.inspector.facts.wire import Integer
from ctrace.inspector.findings.site_matching import matched
from ctrace.inspector.source.relative_paths import relative_path
from ctrace.inspector.source.statements import put_aside_names, put_aside_roots

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
    # Fewer breaks of a run that failed are those that it did not come to.
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
    # What only a log of ctrace has, such as ops in eager, would count as none in the other one.
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


class What(StrEnum):
    """The kind of thing that differs."""

    VERDICT = "verdict"
    BREAK = "break"
    SKIP = "skip"
    RECOMPILE = "recompile"
    GRAPH = "graph"
    FUSION = "fusion"
    KERNEL = "kernel"
    GUARD = "guard"
    COVERAGE = "coverage"
    ACCURACY = "accuracy"
    MEMORY = "memory"
    TIME = "time"
    CACHE = "cache"


class ChangeKind(StrEnum):
    """How it differs."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


class Change(Struct, frozen=True):
    """One difference between two runs."""

    JSON: ClassVar[str] = "what change=how where was now detail follows"
    what: What
    how: ChangeKind
    where: str
    """A file and line, a function, or a name; `run` for the run as a whole."""
    was: str | None = None
    now: str | None = None
    detail: tuple[str, ...] = ()
    """Lines of a unified diff, for a kernel's source."""
    follows: tuple[str, ...] = ()
    """What differs only because of this, such as the bytes of kernels: a summary, then a line for each."""


class GrownLine(Struct, frozen=True):
    """What a line holds at the peaks of two runs."""

    JSON: ClassVar[str] = "where source was now kinds"
    where: str
    """`file:line` in the later run, or in the earlier one if only that has it; `no line of yours`: not known."""
    source: str
    """The line of code."""
    was: Integer
    """Bytes at the peak of the earlier run."""
    now: Integer
    """Bytes at the peak of the later run."""
    kinds: tuple[str, ...]
    """What it holds, such as `saved`, the largest first."""


class MemoryGrowth(Struct, frozen=True):
    """The peaks of two runs, and the lines that hold memory then."""

    JSON: ClassVar[str] = "was now lines"
    was: MemoryPeak
    now: MemoryPeak
    lines: tuple[GrownLine, ...] = ()
    """Those that grew most first."""


class UncomparedKind(Struct, frozen=True):
    """A kind that was not compared, and why."""

    what: What
    why: str


class RunDiff(Struct, frozen=True):
    """All differences between two runs."""

    JSON: ClassVar[str] = (
        "equal direction=judgement.direction why_unknown=judgement.why_unknown numbers=judgement.measures changes "
        "compared not_compared=left_out notes by_settings memory"
    )
    changes: tuple[Change, ...] = ()
    compared: tuple[What, ...] = ()
    """The kinds that both runs recorded and that were compared."""
    not_compared: tuple[tuple[What, str], ...] = ()
    """The kinds that were not compared, each with the reason."""
    notes: tuple[str, ...] = ()
    """How the environments of the runs differ, such as the version of torch, and what is not known about them."""
    judgement: WorseSide = WorseSide()
    """Which run compiled better."""
    by_settings: bool = False
    """Whether both runs compiled the same code with the same torch under other settings, so that kernels differ."""

    memory: MemoryGrowth | None = None
    """What grew; None: not both runs followed their memory."""

    @property
    def consequences(self) -> tuple[Change, ...]:
        """The changes that follow from other settings."""
        if self.by_settings:
            return tuple(each for each in self.changes if each.what is What.KERNEL)
        return ()

    @property
    def left_out(self) -> tuple[UncomparedKind, ...]:
        """The kinds that were not compared."""
        return tuple(UncomparedKind(what, why) for what, why in self.not_compared)

    @property
    def equal(self) -> bool:
        """Whether no difference was found in what both runs recorded."""
        return not self.changes


class DiffDocument(Struct, frozen=True):
    """What `ctrace diff` answers: the differences between two runs, and their names."""

    JSON: ClassVar[str] = "before after *found failed_on"
    before: str
    after: str
    found: RunDiff
    failed_on: tuple[What, ...] = ()
    """The kinds of changes for which the command exits with 1."""


def size_of(change: Change) -> int:
    """Count the things that a change is about: kernels of one graph that differ only in bytes are one change."""
    if change.what is What.KERNEL:
        return max(1, len(change.follows) - 1)
    return 1


def edited(what: What, where: str, was: str, now: str, detail: tuple[str, ...] = ()) -> Change:
    """Return a change of something that both runs have."""
    return Change(what, ChangeKind.CHANGED, where, was, now, detail)


_WHAT = {
    SiteKind.BREAK: What.BREAK,
    SiteKind.DISABLED: What.BREAK,
    SiteKind.SKIP: What.SKIP,
    SiteKind.RECOMPILE: What.RECOMPILE,
    SiteKind.DANGER: What.ACCURACY,
    SiteKind.CULPRIT: What.ACCURACY,
}


def root_of(session: Session) -> Path:
    """Return the folder that a run's paths are relative to: its working directory, else this process's."""
    return Path(session.environment.cwd or Path.cwd())


def place(session: Session, file: str, line: int | None) -> str:
    """Write `file:line`, with the file relative to the run's folder."""
    short = "?"
    if file:
        short = relative_path(file, root_of(session), session.environment.prefixes)
    if line:
        return f"{short}:{line}"
    return short


def site_changes(before: Session, after: Session) -> Iterator[Change]:
    """Yield the sites that appeared, disappeared or changed."""
    olds = {site.key: site for site in sites_of(before, root_of(before), warm_up=True)}
    found = matched(
        sites_of(after, root_of(after), warm_up=True), [Known(site.key, site.times) for site in olds.values()]
    )
    for key in found.gone:
        old = olds[key.key]
        yield Change(_WHAT[old.key.kind], ChangeKind.REMOVED, _where(before, old), was=_described(old))
    for new, known in found.pairs:
        yield from _changed(after, olds[known.key], new)
    for new in found.new:
        yield Change(_WHAT[new.key.kind], ChangeKind.ADDED, _where(after, new), now=_described(new))


def _changed(after: Session, old: Site, new: Site) -> Iterator[Change]:
    """Yield a change if the code of a site was edited, or if a function recompiled more or less often there."""
    # Each recompilation of a function meets its breaks again, and is reported itself.
    is_more = new.key.kind is SiteKind.RECOMPILE and old.times != new.times
    if is_more or _content(old.key) != _content(new.key):
        yield edited(_WHAT[new.key.kind], _where(after, new), _described(old), _described(new))


def _content(key: SiteKey) -> str:
    # A decorator that takes *args reaches `self` as `given[0]`: the same guard under another root.
    if key.kind is SiteKind.RECOMPILE:
        return put_aside_roots(key.text)
    return put_aside_names(key.text)


def _where(session: Session, site: Site) -> str:
    if site.file:
        return place(session, site.file, site.line)
    return site.key.place


def _described(site: Site) -> str:
    """Write a site's content: its statement or what changed, then torch's ids or the kinds of causes."""
    times = ""
    if site.key.kind is SiteKind.RECOMPILE and site.times > 1:
        times = f", {site.times} times"
    return f"{site.key.text} ({', '.join(site.key.causes)}{times})"

"""Group recompilations by cause (`groups`), with its values, and predict whether they will stop (`prospect`)."""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import ClassVar

from msgspec import Struct

from ctrace.inspector.facts.findings import CacheUse, Cause, CauseKind, Recompile
from ctrace.inspector.facts.session import Compilation, Session
from ctrace.inspector.facts.trial import later_calls_of
from ctrace.inspector.grouping import grouped
from ctrace.inspector.knowledge.counting import count


class Outlook(StrEnum):
    """Whether a cause will lead to more recompilations."""

    SETTLES = "settles"
    """No more recompilations."""
    FINITE = "finite"
    """One graph for each value, and the number of values is limited."""
    DIVERGES = "diverges"
    """Each new value recompiles, until the limit is hit."""
    UNKNOWN = "unknown"
    """Not known: one recompilation is not enough to tell."""


class Prospect(Struct, frozen=True):
    """The outlook of a cause, and why."""

    outlook: Outlook
    why: str


_OF_MODULES = frozenset(
    (CauseKind.ATTRIBUTE_VALUE, CauseKind.LENGTH, CauseKind.TYPE, CauseKind.IDENTITY, CauseKind.KEY_ORDER)
)
"""Kinds of causes in which modules of one class may differ."""
NO_REASON = Cause(CauseKind.OTHER, "torch logs no reason")
"""Stands for a cause that is not known."""
_PAIRS = {
    CauseKind.TRAINING_MODE: "train() and eval() each have a graph now",
    CauseKind.GRAD_MODE: "gradients on and off each have a graph now",
    CauseKind.AUTOCAST: "autocast on and off each have a graph now",
    CauseKind.REQUIRES_GRAD: "both cases are compiled",
    CauseKind.NONE: "None and a value each have a graph now",
    CauseKind.DUCK_SHAPE: "the two sizes are independent in the new graph",
    CauseKind.ZERO_ONE: "sizes 0 and 1 cost at most one graph each",
}
_FINITE = {
    CauseKind.DTYPE: "one graph for each dtype",
    CauseKind.DEVICE: "one graph for each device",
    CauseKind.LAYOUT: "one graph for each layout",
    CauseKind.STRIDE: "one graph for each memory layout",
    CauseKind.DISPATCH_KEYS: "one graph for each kind of tensor",
    CauseKind.TYPE: "one graph for each type",
    CauseKind.GLOBAL_STATE: "one graph for each value of the setting",
    CauseKind.ALIASING: "one graph for each pattern of inputs that share memory",
    CauseKind.RANGE: "one graph for each outcome of the condition",
    CauseKind.KEY_ORDER: "one graph for each order of keys",
}


_COMPUTED = re.compile(r"^[^%]* [*/+-]+ [^%]*$")
"""A subject such as `(x.size(0) // 8)`, without a remainder."""


def prospect(session: Session, members: Sequence[tuple[Recompile, Cause]]) -> Prospect:
    """Judge a group of recompilations of one function for one cause."""
    kind = members[0][1].kind
    # `_PAIRS` has autocast for on and off; a dtype has more values than two.
    if kind is CauseKind.AUTOCAST and members[0][1].subject.endswith("_dtype"):
        return Prospect(Outlook.FINITE, "one graph for each autocast dtype")
    if all(recompile.shared_by for recompile, _ in members):
        return Prospect(Outlook.FINITE, "one graph for each of those that share this code")
    if kind in _PAIRS:
        return Prospect(Outlook.SETTLES, _PAIRS[kind])
    values = {value for _, cause in members for value in (cause.was, cause.now)}
    if values <= {"True", "False"} or values <= {"there", "missing"}:
        return Prospect(Outlook.SETTLES, "both values are compiled")
    if kind in _FINITE and not _is_number(members):
        return Prospect(Outlook.FINITE, _FINITE[kind])
    # The last graph decides: automatic dynamic shapes make a value dynamic only at its first change.
    if members[-1][1].is_open:
        return Prospect(Outlook.SETTLES, "it is dynamic now, so the new graph takes other values")
    recompiles = [recompile for recompile, _ in members]
    if members[0][1] is NO_REASON:
        return Prospect(Outlook.UNKNOWN, NO_REASON.subject)
    of_module = kind in _OF_MODULES and "." in members[0][1].subject
    if of_module and (shared := _sharing(session, recompiles)):
        return Prospect(Outlook.FINITE, f"one graph for each of the {shared} modules that share this code")
    if len(members) < 2:  # one change is no rate
        return Prospect(Outlook.UNKNOWN, f"each new value recompiles{_later(session)}")
    return Prospect(Outlook.DIVERGES, _when_full(session, recompiles))


def _later(session: Session) -> str:
    """Say what later calls of the unchanged model did; empty if they were not made. They do not say for which cause."""
    later = later_calls_of(session.trials)
    if later is None:
        return ""
    if not later.recompiles:
        return f"; {later.calls} calls of the model do not recompile"
    limit = " and hit the recompile limit" if later.limit_hit else ""
    times = count(later.recompiles, "time")
    return f"; {later.calls} calls of the model recompile {times} in all{limit}, for this cause or another"


def _is_number(members: Sequence[tuple[Recompile, Cause]]) -> bool:
    """Whether the graphs need a number that is computed from sizes, such as `x.size(0) // 8`, instead of one of two
    outcomes; a remainder has a limited number of values.
    """
    causes = [cause for _, cause in members]
    values = [value or "" for cause in causes for value in (cause.was, cause.now)]
    computed = all(cause.kind is CauseKind.RANGE and _COMPUTED.search(cause.subject) for cause in causes)
    return computed and all(value.isdecimal() for value in values)


def _sharing(session: Session, recompiles: list[Recompile]) -> int:
    """Count the modules that share a cache; return 0 unless each has one entry and the cache refused no call."""
    frame = recompiles[0].compilation.partition("/")[0]
    if any(each.refused for each in session.limit.functions if each.frame == frame):
        return 0
    entries = [each.of_object for each in session.compilations if each.frame == frame and each.fail_type is None]
    # A module with two entries recompiles for another reason, too.
    if None not in entries and len(set(entries)) == len(entries):
        return len(entries)
    return 0


def _when_full(session: Session, recompiles: list[Recompile]) -> str:
    """Estimate when the cache will be full at this rate."""
    frame = recompiles[0].compilation.partition("/")[0]
    use = next((each for each in session.limit.functions if each.frame == frame), None)
    if use is None:
        return "each new value recompiles"
    if use.refused:
        return f"each new value recompiles; the limit of {use.of} was hit, and further values run eagerly"
    return f"each new value recompiles; {_limit_at(session, recompiles, use)}"


def _limit_at(session: Session, recompiles: list[Recompile], use: CacheUse) -> str:
    left = use.of - use.used
    call = _last_call(session, recompiles)
    if call is not None:  # the next call after the last free entry
        return f"at this rate call {call + left + 1} hits the limit of {use.of}"
    if left:
        return f"{left} more fit before the limit of {use.of}"
    return f"the limit of {use.of} is reached"


def _last_call(session: Session, recompiles: list[Recompile]) -> int | None:
    """Return the number, from 1, of the last call that recompiled; None if a call before it did not recompile."""
    first = 0
    begins: dict[str, int] = {}
    for scenario in session.scenarios:
        begins[scenario.name] = first
        first += scenario.calls
    # Scenarios run one after the other: a user counts their calls through.
    calls = [
        begins[each.scenario] + each.call + 1
        for each in recompiles
        if each.scenario is not None and each.call is not None and each.scenario in begins
    ]
    # Two in a row are the least from which a rate can be read.
    last = calls[-2:]
    in_a_row = len(calls) == len(recompiles) and len(last) == 2 and last[1] == last[0] + 1
    if not in_a_row:
        return None
    return last[1]


_REASON = re.compile(r"\s*\S+/(?P<entry>\d+): (?P<guard>.*?)(?:\s{2,}#.*)?", re.DOTALL)


_SIZE = re.compile(r"tensor '(?P<tensor>.+)' (?P<what>\w+) mismatch at index (?P<dim>\d+)")


class RecompileGroup(Struct, frozen=True):
    """Recompilations of one function for one cause."""

    JSON: ClassVar[str] = (
        "function file|relative line cause values compilations expected seconds outlook=prospect.outlook "
        "why=prospect.why also"
    )
    function: str
    file: str
    line: int
    """The line that specialized on the value; if it is not known, the function's first line."""
    is_fixed_here: bool
    """Whether `line` specialized on the value."""
    cause: Cause
    """The cause that tells most, for the group's kind, subject, reason and advice."""
    values: tuple[str, ...]
    """The values in order, including the first; empty if not known."""
    compilations: tuple[str, ...]
    expected: bool
    why_expected: str
    seconds: float | None
    """The compile time of the recompilations in the group; one with several causes counts in several groups."""
    prospect: Prospect
    also: tuple[str, ...]
    """What else differed in the same recompilations."""

    @property
    def kind(self) -> CauseKind:
        """Return the kind of the cause."""
        return self.cause.kind

    @property
    def subject(self) -> str:
        """Return the changed value's name in the user's code."""
        return self.cause.subject

    @property
    def fix(self) -> str:
        """Return what to change."""
        return self.cause.fix


def telling(same: list[Cause]) -> Cause:
    """Return the change that tells most about a value that changed several times: the last one after which it is not
    dynamic. At its first change it is not known yet whether the code lets the value become dynamic. If it was a tensor
    in some calls, a change to or from one tells most: what makes numbers alike does not help then.
    """
    of_tensors = [each for each in same if each.kind is CauseKind.TYPE and _is_of_tensor(each)]
    return next((cause for cause in reversed(of_tensors or same) if not cause.is_open), same[0])


def _is_of_tensor(cause: Cause) -> bool:
    return any((value or "").rpartition(".")[2] == "Tensor" for value in (cause.was, cause.now))


_Members = list[tuple[Recompile, Cause]]


def groups(session: Session) -> tuple[RecompileGroup, ...]:
    """Group recompilations by code object, kind and subject; those without a known cause form a separate group.

    Groups that diverge come first, expected ones last.
    """
    found: dict[tuple[str, ...], _Members] = {}
    for recompile in session.recompiles:
        for cause in recompile.causes or (NO_REASON,):
            key = recompile.function, recompile.file, _code(recompile), cause.kind, cause.subject
            found.setdefault(key, []).append((recompile, cause))
    made = [_group(members, session) for members in found.values()]
    return tuple(sorted(made, key=lambda group: (group.expected, group.prospect.outlook is not Outlook.DIVERGES)))


def _code(recompile: Recompile) -> str:
    """Return Dynamo's number of the code object. Numbers start again after a reset, so `2.0/1` also belongs to `0`."""
    return recompile.compilation.partition("/")[0].rpartition(".")[2]


def _group(members: _Members, session: Session) -> RecompileGroup:
    recompile, first = members[0]
    # The line and the advice may come from different changes: torch knows the line only where a guard has a stack.
    placed = next((cause for _, cause in members if cause.line is not None), first)
    told = telling([cause for _, cause in members])
    values = [value for _, cause in members for value in (cause.was, cause.now) if value is not None]
    recompiles = {each.compilation: each for each, _ in members}
    subjects = {cause.subject for each in recompiles.values() for cause in each.causes} - {first.subject}
    return RecompileGroup(
        function=recompile.function,
        file=placed.file or recompile.file,
        line=placed.line or recompile.line,
        is_fixed_here=placed.line is not None,
        cause=placed if told.fix == placed.fix else told,
        values=tuple(dict.fromkeys(values)),
        compilations=tuple(recompiles),
        expected=all(each.expected for each in recompiles.values()),
        why_expected=next((each.why_expected for each in recompiles.values() if each.why_expected), ""),
        seconds=_seconds(session, recompiles),
        prospect=prospect(session, [(each, cause) for each, cause in members]),
        also=tuple(sorted(subjects)),
    )


def _seconds(session: Session, ids: dict[str, Recompile]) -> float | None:
    times = [each.seconds for each in session.compilations if each.id in ids and each.seconds is not None]
    if not times:
        return None
    return sum(times)


class CacheEntry(Struct, frozen=True):
    """An entry of a cache, and why it was compiled."""

    JSON: ClassVar[str] = (
        "compilation=of.id scenario=of.scenario call=of.call seconds=of.seconds nearest=recompile.nearest distances"
    )
    of: Compilation
    recompile: Recompile | None
    """None: the first call made it."""

    @property
    def distances(self) -> Mapping[str, int]:
        """How many guards failed, keyed by earlier entry."""
        if self.recompile:
            return self.recompile.distances
        return {}


class Cache(Struct, frozen=True):
    """A code object's cache: its entries in order, and how close it is to its limit."""

    JSON: ClassVar[str] = (
        "function file|relative line used=use.used of=use.of refused ops_in_eager=left objects entries"
    )
    function: str
    file: str
    line: int
    entries: tuple[CacheEntry, ...]
    use: CacheUse | None
    objects: tuple[str, ...]
    """Modules that share the cache, as class and number."""
    refused: bool
    """Whether the cache was full for a call, so that Dynamo refused to compile."""
    left: int | None
    """How many ops of the function ran eagerly in the last measured calls; None: not measured."""


def caches(session: Session) -> tuple[Cache, ...]:
    """List the caches that have more than one entry, or that were full for a call."""
    by_frame = grouped(session.compilations, lambda each: each.frame)
    recompiled = {each.compilation.partition("/")[0] for each in session.recompiles}
    return tuple(
        _cache(frame, entries, session)
        for frame, entries in by_frame.items()
        if frame in recompiled or any(_is_refusal(each) for each in entries)
    )


def _cache(frame: str, entries: list[Compilation], session: Session) -> Cache:
    first = entries[0]
    by_id = {each.compilation: each for each in session.recompiles}
    coverage = next(
        (
            each.coverage
            for each in session.functions
            if (each.file, each.line) == (first.file, first.line) and each.coverage.compiled is not None
        ),
        None,
    )
    return Cache(
        function=first.function,
        file=first.file,
        line=first.resumes_at or first.line,
        entries=tuple(CacheEntry(each, by_id.get(each.id)) for each in entries if each.fail_type is None),
        use=next((use for use in session.limit.functions if use.frame == frame), None),
        objects=tuple(dict.fromkeys(each.of_object for each in entries if each.of_object)),
        refused=any(map(_is_refusal, entries)),
        left=(coverage.ops or 0) - (coverage.compiled or 0) if coverage else None,
    )


def _is_refusal(compilation: Compilation) -> bool:
    # The end of a gb type (`Dynamo recompile limit exceeded`, _dynamo/convert_frame.py:2009, 2.13).
    return "recompile limit exceeded" in (compilation.fail_reason or "")


def other_reason(each: Recompile) -> str | None:
    """Return torch's reason if it is about another cache entry than the nearest one, or None if not."""
    line = each.reason.partition("\n")[0]
    match = _REASON.fullmatch(line)
    if match is None or not match["guard"].strip() or not _is_elsewhere(each, match["entry"], match["guard"]):
        return None
    return match["guard"].strip()


def _is_elsewhere(each: Recompile, entry: str, guard: str) -> bool:
    """Whether the reason is about another entry, or about a guard of the same entry that is not among the causes."""
    if each.nearest is not None and each.nearest.rpartition("/")[2] != entry:
        return True
    size = _SIZE.match(guard)
    if size is None:
        return False
    index = f"({size['dim']})"
    return not any(
        size["tensor"] in cause.subject and cause.subject.endswith(index) for cause in each.causes
    ) and not any(cause.others for cause in each.causes)

"""Compare two sessions."""

from collections.abc import Iterator

from ctrace.inspector.facts.session import Session
from ctrace.inspector.features.compare.diff.caches import cache_changes
from ctrace.inspector.features.compare.diff.changes import Change, How, RunDiff, What, edited, size_of
from ctrace.inspector.features.compare.diff.fusion import fusion_changes
from ctrace.inspector.features.compare.diff.graphs import Pairs, changes_of, pairs_of
from ctrace.inspector.features.compare.diff.guards import are_recorded, guard_changes
from ctrace.inspector.features.compare.diff.judgement import judge
from ctrace.inspector.features.compare.diff.kernels import follow_up, kernel_changes, resized_changes
from ctrace.inspector.features.compare.diff.sites import site_changes
from ctrace.inspector.session.completeness import first_lines

TIMES_FACTOR = 5.0
TIMES_SECONDS = 10.0
"""A phase counts as changed if it takes this many times as long and this many seconds longer.

On a busy machine of two cores, a phase of five equal runs took from 2.6 to 6.8 seconds; the limits are far above that.
"""
_ORDER = tuple(What)
_CACHING = ("private", "user")
"""How a run uses torch's caches, if it does."""


def compare(before: Session, after: Session) -> RunDiff:
    """Return all differences between two runs, the most important kinds first.

    What only one of the two runs recorded is not compared: its absence from a log is not a change of the program.
    """
    pairs = pairs_of(before, after)
    missing = dict(_not_compared(before, after, pairs))
    found = [change for change in _every(before, after, pairs) if change.what not in missing]
    found.sort(key=lambda change: _ORDER.index(change.what))
    compared = tuple(what for what in What if what not in missing)
    notes = tuple(_notes(before, after))
    return RunDiff(tuple(found), compared, tuple(missing.items()), notes, judge(before, after))


def _every(before: Session, after: Session, pairs: Pairs) -> Iterator[Change]:
    if before.verdict is not after.verdict:
        yield edited(What.VERDICT, "run", str(before.verdict), str(after.verdict))
    yield from site_changes(before, after)
    kernels = kernel_changes(pairs)
    follow = {graph: follow_up(each) for graph, each in kernels.resized.items()}
    yield from changes_of(pairs, follow)
    yield from guard_changes(pairs)
    yield from fusion_changes(pairs)
    yield from kernels.changes
    yield from resized_changes(pairs, follow, kernels)
    yield from cache_changes(pairs)
    yield from _coverage(before, after)
    yield from _times(before, after)


def _coverage(before: Session, after: Session) -> Iterator[Change]:
    was, now = before.coverage, after.coverage
    if was != now:
        before_text, after_text = (f"{one.compiled} of {one.ops} ops compiled" for one in (was, now))
        yield edited(What.COVERAGE, "run", before_text, after_text)


def _times(before: Session, after: Session) -> Iterator[Change]:
    """Yield phases whose compile times differ far more than those of two equal runs."""
    for phase, was in before.time.phases.items():
        now = after.time.phases.get(phase)
        if now is not None and _is_far(was, now):
            yield edited(What.TIME, f"phase {phase}", f"{was:.1f} s", f"{now:.1f} s")


def _is_far(was: float, now: float) -> bool:
    low, high = sorted((was, now))
    return high - low > TIMES_SECONDS and high > TIMES_FACTOR * low


def _not_compared(before: Session, after: Session, pairs: Pairs) -> Iterator[tuple[What, str]]:
    """Yield what cannot be compared, and why."""
    if not are_recorded(pairs) and pairs.both:
        yield What.GUARD, "no graph has its guards in both logs"
    if why := _lacking("fusion decisions", bool(before.fusions), bool(after.fusions), before, after):
        yield What.FUSION, why
    if why := _lacking("kernels", bool(before.kernels), bool(after.kernels), before, after):
        yield What.KERNEL, why
    if before.coverage.ops is None or after.coverage.ops is None:
        yield What.COVERAGE, "not measured in both runs: ctrace calls only model files in eager, too"
    if before.compared is None or after.compared is None:
        yield What.ACCURACY, "not measured in both runs: ctrace calls only model files in eager, too"
    if not before.time.phases or not after.time.phases:
        yield What.TIME, "one of the logs, or both, has no compile times"
    if why := _without_caches(before, after):
        yield What.CACHE, why


def _without_caches(before: Session, after: Session) -> str:
    """Say why the outcomes of caches cannot be compared; empty if both runs recorded look-ups."""
    lacks = [
        name
        for name, session in (("first", before), ("second", after))
        if not session.compile_time.lookups and session.compile_time.use.kind not in _CACHING
    ]
    if not lacks:
        return ""
    which = "neither run recorded look-ups" if len(lacks) > 1 else f"the {lacks[0]} run recorded no look-ups"
    return f"{which}: ctrace captures without torch's caches, except with ctrace time --compile"


def _lacking(what: str, in_before: bool, in_after: bool, before: Session, after: Session) -> str:
    """Say why a list that may be empty cannot be compared; empty if both runs recorded it."""
    lacks = [
        name
        for name, is_there, session in (("first", in_before, before), ("second", in_after, after))
        if not is_there and session.graphs and not _records_codegen(session)
    ]
    if not lacks:
        return ""
    return f"the {' and the '.join(lacks)} run recorded no {what}"


def _records_codegen(session: Session) -> bool:
    """Whether a run would have recorded fusion and kernels if there were any."""
    environment = session.environment
    return bool(environment.ctrace) and not environment.fast and "inductor" in environment.backend


def _notes(before: Session, after: Session) -> Iterator[str]:
    one, other = before.environment, after.environment
    for name in ("torch", "triton", "python", "device", "backend", "ctrace"):
        was, now = getattr(one, name), getattr(other, name)
        if was and now and was != now:
            yield f"{name}: {was}, then {now}"
    if one.built != other.built:
        yield f"kernels were compiled and run in the {'first' if one.built else 'second'} run only"
    first, second = first_lines(before), first_lines(after)
    for line in dict.fromkeys((*first, *second)):
        if line in first and line in second:
            runs = "both runs"
        elif line in first:
            runs = "first run"
        else:
            runs = "second run"
        yield f"{runs}: {line}"


def counts(changes: tuple[Change, ...]) -> dict[What, dict[How, int]]:
    """Count what differs, by kind."""
    found: dict[What, dict[How, int]] = {}
    for change in changes:
        by_how = found.setdefault(change.what, {})
        by_how[change.how] = by_how.get(change.how, 0) + size_of(change)
    return found

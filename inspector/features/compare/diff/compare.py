"""Compare two sessions: graphs first, and for graphs that match what torch's caches returned, fusions and guards.

Only what a user could see counts: neither the names of nodes and buffers in a fused kernel, nor ids of objects in a
guard.

Terms
-----
- A *pair* is a graph of the run before and the graph of the run after that stands for it.
- A *change* is one difference, with its kind (`What`), the place that it concerns, and both sides.
- *Not compared* is what only one of the runs recorded: its absence from a log is no change of the program.

Steps
-----
1. Match graphs (`graph_changes.py:pairs_of`), by the strictest likeness first, so that equal graphs find each other
   before those that have merely the function in common. What is left over was added or is gone.
2. Leave out the kinds that one side cannot have, each with its reason.
3. Compare findings by their sites (`inspector/findings/site_matching.py`), which survive edits elsewhere in the file;
   then, pair by pair, graphs, guards, fusions, kernels and what torch's caches returned; then coverage, memory and the
   times of phases, the last with limits far above what five equal runs differ by.
4. A kernel that differs because the sizes of its graph do is reported once, with the graph.
5. Sort by kind, and judge which side is worse (`worse_side.py`).

Example
-------
A line `print(x.sum())` is added to a model. The graph before has no equal after; one of the two new graphs has its
function, and becomes its pair; the other is new. The diff says: one break more, at that line; one graph more; the nodes
that moved out of the pair's graph.
"""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import PurePath

from msgspec.structs import replace

from ctrace.inspector.facts.compile_time import CacheLookup, LookupOutcome
from ctrace.inspector.facts.fusion_facts import Fusion, Node, NodeKind
from ctrace.inspector.facts.guard_facts import Guard
from ctrace.inspector.facts.kernels import Stage
from ctrace.inspector.facts.session import Session
from ctrace.inspector.features.compare.diff.changes import Change, ChangeKind, RunDiff, What, edited, size_of
from ctrace.inspector.features.compare.diff.graph_changes import Pairs, RunGraph, changes_of, pairs_of
from ctrace.inspector.features.compare.diff.kernel_changes import follow_up, kernel_changes, resized_changes
from ctrace.inspector.features.compare.diff.memory_changes import growth_of, memory_changes, why_not_compared
from ctrace.inspector.features.compare.diff.node_changes import without_numbers
from ctrace.inspector.features.compare.diff.site_changes import site_changes
from ctrace.inspector.features.compare.diff.worse_side import judge
from ctrace.inspector.findings.compile_time.keys import components_of, differences
from ctrace.inspector.findings.graphs.scan import pieces
from ctrace.inspector.findings.guards.guard_view import about
from ctrace.inspector.findings.guards.printed_tree import parse
from ctrace.inspector.findings.site_matching import paired
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
    growth = growth_of(before, after)
    found = [
        change for change in (*_every(before, after, pairs), *memory_changes(growth)) if change.what not in missing
    ]
    found.sort(key=lambda change: _ORDER.index(change.what))
    compared = tuple(what for what in What if what not in missing)
    notes = tuple(_notes(before, after))
    return RunDiff(tuple(found), compared, tuple(missing.items()), notes, judge(before, after), memory=growth)


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
    if why := why_not_compared(before, after):
        yield What.MEMORY, why
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


def counts(changes: tuple[Change, ...]) -> dict[What, dict[ChangeKind, int]]:
    """Count what differs, by kind."""
    found: dict[What, dict[ChangeKind, int]] = {}
    for change in changes:
        by_how = found.setdefault(change.what, {})
        by_how[change.how] = by_how.get(change.how, 0) + size_of(change)
    return found


_MOST_COMPONENTS = 20
_Key = tuple[str, str, str, int]
"""Cache, graph part, kernel, and which look-up of these it is, from 0."""


def cache_changes(pairs: Pairs) -> Iterator[Change]:
    """Yield the look-ups that matched graphs do not share, and those with another outcome or another reason."""
    for old, new in pairs.both:
        before, after = _lookups(old), _lookups(new)
        for key in dict.fromkeys((*after, *before)):
            yield from _caches_between(before.get(key), after.get(key), f"{new.where}: {_named(key)}")


def _lookups(seen: RunGraph) -> dict[_Key, CacheLookup]:
    found: dict[_Key, CacheLookup] = {}
    for each in seen.session.compile_time.lookups:
        if each.graph == seen.graph.id:
            number = 0
            while (key := (each.cache, each.stage or "", each.kernel or "", number)) in found:
                number += 1
            found[key] = each
    return found


def _named(key: _Key) -> str:
    cache, stage, kernel, number = key
    again = f"look-up {number + 1}" if number else ""
    return " ".join(each for each in (cache, stage, kernel, again) if each)


def _caches_between(was: CacheLookup | None, now: CacheLookup | None, where: str) -> Iterator[Change]:
    if was is None and now is not None:
        yield Change(What.CACHE, ChangeKind.ADDED, where, now=_cache_text(now))
    elif now is None and was is not None:
        yield Change(What.CACHE, ChangeKind.REMOVED, where, was=_cache_text(was))
    elif was is not None and now is not None and _cache_text(was) != _cache_text(now):
        yield edited(What.CACHE, where, _cache_text(was), _cache_text(now), tuple(_reasons(was, now)))


def _cache_text(lookup: CacheLookup) -> str:
    """Return the outcome, and why torch bypassed the cache."""
    if lookup.reason:
        return f"{lookup.outcome} ({lookup.reason})"
    return str(lookup.outcome)


def _reasons(was: CacheLookup, now: CacheLookup) -> Iterator[str]:
    """Yield the components of the key that differ, if one of the two look-ups missed."""
    if LookupOutcome.MISS not in (was.outcome, now.outcome):
        return
    before, after = components_of(was), components_of(now)
    if not before or not after:
        return
    found = differences(before, after)
    for each in found[:_MOST_COMPONENTS]:
        yield f"{each.component}: {_shown(each.was)}, then {_shown(each.now)}"
    if len(found) > _MOST_COMPONENTS:
        yield f"and {len(found) - _MOST_COMPONENTS} more components of the key"


def _shown(text: str | None) -> str:
    return "not there" if text is None else text


_Group = tuple[tuple[str, ...], ...]
"""The ops of each node in a fused group, in order."""


def fusion_changes(pairs: Pairs) -> Iterator[Change]:
    """Yield the groups of fused ops that differ between matched graphs."""
    for old, new in pairs.both:
        olds, news = _fusions(old), _fusions(new)
        for stage in Stage:
            if stage in olds and stage in news:
                yield from _fusion_between(olds[stage], news[stage], f"{new.where} {stage}")


def _fusions(seen: RunGraph) -> dict[Stage, Fusion]:
    return {each.stage: each for each in seen.session.fusions if each.graph == seen.graph.id}


def _fusion_between(old: Fusion, new: Fusion, where: str) -> Iterator[Change]:
    was, now = Counter(_groups(old)), Counter(_groups(new))
    gone, come = list((was - now).elements()), list((now - was).elements())
    for group in list(gone):
        near = max(come, key=lambda other, group=group: _shared(group, other), default=None)  # type: ignore[misc]
        if near is not None and _shared(group, near):
            gone.remove(group)
            come.remove(near)
            if len(group) > 1 or len(near) > 1:
                yield edited(What.FUSION, where, _fusion_text(group), _fusion_text(near))
    for group in gone:
        if len(group) > 1:
            yield Change(What.FUSION, ChangeKind.REMOVED, where, was=_fusion_text(group))
    for group in come:
        if len(group) > 1:
            yield Change(What.FUSION, ChangeKind.ADDED, where, now=_fusion_text(group))


def _groups(fusion: Fusion) -> Iterator[_Group]:
    """Yield the ops of each group; a library call is one node and fuses nothing."""
    nodes: dict[str, Node] = {each.name: each for each in fusion.nodes}
    for made in fusion.result:
        if made.kind not in (NodeKind.EXTERNAL, NodeKind.NOTHING):
            yield tuple(nodes[name].ops if name in nodes else made.ops for name in made.operations)


def _shared(one: _Group, other: _Group) -> int:
    """Count the ops that two groups share."""
    return len({op for node in one for op in node} & {op for node in other for op in node})


def _fusion_text(group: _Group) -> str:
    return " + ".join("/".join(ops) or "?" for ops in group)


_ID = re.compile(r"(?<![.\d])\d{8,}(?!\d)|0x[0-9a-f]+")
"""Addresses and ids of objects: no two processes have the same ones."""
_MANY = 3


def guard_changes(pairs: Pairs) -> Iterator[Change]:
    """Yield the guards that only one of two matched graphs has, and those that check another value."""
    for old, new in pairs.both:
        yield from _guards_between(old, new)


def are_recorded(pairs: Pairs) -> bool:
    """Whether any matched graph has its guards in both logs."""
    return any(_guards(old) is not None and _guards(new) is not None for old, new in pairs.both)


def _guards(seen: RunGraph) -> list[Guard] | None:
    printed = seen.session.guards.get(seen.graph.id)
    if printed is None:
        return None
    found = parse(printed, seen.session.environment.prefixes).all_guards()
    return [replace(each, code=without_module(each.code, seen.graph.file)) for each in found]


def without_module(code: str, file: str) -> str:
    """Name classes of a file without its module: another name of the file is no other class."""
    here = PurePath(file).with_suffix("").parts

    def outside(module: re.Match[str]) -> str:
        parts = tuple(module[0].split(".")[:-1])
        return "" if here[-len(parts) :] == parts else module[0]

    return re.sub(r"(?<=<class ')(?:\w+\.)+", outside, code)


def _guards_between(old: RunGraph, new: RunGraph) -> Iterator[Change]:
    olds, news = _guards(old), _guards(new)
    if olds is None or news is None:
        return
    _, only_new, only_old = paired(news, olds, lambda guard: (guard.kind, guard.source, content(guard)))
    both, added, removed = paired(only_new, only_old, lambda guard: (guard.kind, guard.source))
    for guard in removed:
        yield Change(What.GUARD, ChangeKind.REMOVED, old.where, was=_guard_text(guard))
    for guard, before in both:
        yield edited(What.GUARD, new.where, *_differing(before, guard))
    for guard in added:
        yield Change(What.GUARD, ChangeKind.ADDED, new.where, now=_guard_text(guard))


def content(guard: Guard) -> str:
    """Return a guard's check without the parts that differ between processes or when code moves."""
    return _ID.sub("#", without_numbers(guard.code))


def _differing(before: Guard, guard: Guard) -> tuple[str, str]:
    """Write two versions of a guard; for a check with many arguments, only those that differ."""
    was, now = pieces(content(before)), pieces(content(guard))
    if len(was) != len(now) or len(was) < _MANY:
        calls = [_arguments(content(each)) for each in (before, guard)]
        was, now = pieces(calls[0]), pieces(calls[1])
    if len(was) != len(now) or len(was) < _MANY:
        return _guard_text(before), _guard_text(guard)
    other = [(one, two) for one, two in zip(was, now, strict=True) if one != two]
    name = about(guard) or guard.kind
    return f"{name}: {', '.join(one for one, _ in other)}", f"{name}: {', '.join(two for _, two in other)}"


def _arguments(code: str) -> str:
    """Return what is between the parentheses of a call; the whole text if it is not a call."""
    at = code.find("(")
    return code[at + 1 : -1] if at > 0 and code.endswith(")") else code


def _guard_text(guard: Guard) -> str:
    name = about(guard)
    if name and name not in guard.code:
        return f"{name}: {content(guard)}"
    return content(guard)

"""Compare two Sessions (`compare`): graphs first, and for graphs that match what torch's caches returned, fusions and
guards.

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
5. Sort by kind, and judge which side is worse (`changes.py`).

Example
-------
A line `print(x.sum())` is added to a model. The graph before has no equal after; one of the two new graphs has its
function, and becomes its pair; the other is new. The diff says: one break more, at that line; one graph more; the nodes
that moved out of the pair's graph.

Memory
------
Of two runs that followed it, the peak is compared, and what each line holds then (`memory_changes`). Peaks are compared
as both runs found them: measured with measured, otherwise computed with computed. What a line holds is computed in any
case.
"""

import re
from collections import Counter
from collections.abc import Hashable, Iterator
from pathlib import PurePath

from msgspec import Struct, field
from msgspec.structs import replace

from ctrace.inspector.facts.compile_time import CacheLookup, LookupOutcome
from ctrace.inspector.facts.fusion_facts import Fusion, Node, NodeKind
from ctrace.inspector.facts.guard_facts import Guard
from ctrace.inspector.facts.kernel_facts import Stage
from ctrace.inspector.facts.memory_facts import FoundMemory, MemoryPeak
from ctrace.inspector.facts.session import Session
from ctrace.inspector.features.compare.changes import (
    Change,
    ChangeKind,
    GrownLine,
    MemoryGrowth,
    RunDiff,
    What,
    edited,
    judge,
    place,
    site_changes,
    size_of,
)
from ctrace.inspector.features.compare.graph_changes import (
    Pairs,
    RunGraph,
    changes_of,
    follow_up,
    kernel_changes,
    pairs_of,
    resized_changes,
    without_numbers,
)
from ctrace.inspector.findings.compile_time_view import components_of, differences
from ctrace.inspector.findings.graphs.parse import pieces
from ctrace.inspector.findings.guard_tree import parse
from ctrace.inspector.findings.guard_view import about
from ctrace.inspector.findings.site_matching import paired
from ctrace.inspector.knowledge.counting import memory
from ctrace.inspector.session.summary import first_lines

_LITTLE = 0.01
"""The share of the larger peak below which a line, or a measured peak, counts as equal."""
_NO_LINE = "no line of yours"


class HeldLine(Struct):
    """What a line of one run holds at the peak."""

    where: str
    file: str
    """Relative to the run's folder; empty: no line of the user is known."""
    line: int
    function: str
    source: str
    bytes: int = 0
    kinds: dict[str, int] = field(default_factory=dict)

    @property
    def ordered(self) -> tuple[str, ...]:
        """The kinds of what it holds, the largest first."""
        return tuple(sorted(self.kinds, key=lambda kind: -self.kinds[kind]))


def why_not_compared(before: Session, after: Session) -> str:
    """Say why the memory of two runs cannot be compared; empty: it can."""
    lacks = [name for name, session in (("first", before), ("second", after)) if _found(session) is None]
    if lacks:
        if len(lacks) > 1:
            which = "neither run was"
        else:
            which = f"the {lacks[0]} run was not"
        return f"{which} followed: add --memory where ctrace diff or ctrace report runs the model"
    one, other = _found(before), _found(after)
    assert one is not None
    assert other is not None
    if one.device != other.device:
        return f"on {one.device}, then on {other.device}"
    if one.train != other.train:
        return "one of the runs has a backward (--train), the other none"
    return ""


def growth_of(before: Session, after: Session) -> MemoryGrowth | None:
    """Return what grew between two runs; None: it cannot be compared."""
    if why_not_compared(before, after):
        return None
    one, other = _found(before), _found(after)
    assert one is not None
    assert other is not None
    # A measured peak has what the allocator adds, so it says nothing beside a computed one.
    measured = one.peak.measured and other.peak.measured
    was, now = (_peak(session, found, measured=measured) for session, found in ((before, one), (after, other)))
    return MemoryGrowth(was, now, tuple(_lines(before, one, after, other)))


def memory_changes(growth: MemoryGrowth | None) -> Iterator[Change]:
    """Yield the change of the peak, and of each line that holds much more then, or much less."""
    if growth is None:
        return
    largest = max(growth.was.bytes, growth.now.bytes)
    change = abs(growth.was.bytes - growth.now.bytes)
    # A computed peak is the same in each run, a measured one is not.
    if change and (not growth.was.measured or change >= _LITTLE * largest):
        yield edited(What.MEMORY, "run", _peak_text(growth.was), _peak_text(growth.now))
    for each in growth.lines:
        if abs(each.now - each.was) < _LITTLE * largest:
            continue
        was = None
        if each.was:
            was = f"{memory(each.was)} alive at the peak"
        of = ": ".join(filter(None, (", ".join(each.kinds), each.source)))
        now = None
        if each.now:
            now = f"{memory(each.now)} alive at the peak ({of})"
        if was is None:
            yield Change(What.MEMORY, ChangeKind.ADDED, each.where, now=now)
        elif now is None:
            yield Change(What.MEMORY, ChangeKind.REMOVED, each.where, was=f"{was} ({of})")
        else:
            yield edited(What.MEMORY, each.where, was, now)


def _peak_text(peak: MemoryPeak) -> str:
    part = "step of the optimizer"
    if peak.part != "optimizer":
        part = peak.part
    how = "measured" if peak.measured else "computed"
    return f"peak {memory(peak.bytes)}, {how}, in the {part} at {peak.at or _NO_LINE}"


def _found(session: Session) -> FoundMemory | None:
    found = session.memory
    if found is None or found.why_not:
        return None
    return found


def _peak(session: Session, found: FoundMemory, *, measured: bool) -> MemoryPeak:
    peak = found.peak
    if not measured and found.computed_peak is not None:
        peak = found.computed_peak
    file, colon, line = peak.at.rpartition(":")
    if colon and line.isdecimal():
        return replace(peak, at=place(session, file, int(line)))
    return peak


def _lines(before: Session, one: FoundMemory, after: Session, other: FoundMemory) -> Iterator[GrownLine]:
    """Yield each line with what it holds in both runs, those that grew most first."""
    olds, news = _held(before, one), _held(after, other)
    pairs: list[tuple[HeldLine, HeldLine]] = []
    # The strictest first, so that a line that stayed is not paired with an equal one elsewhere.
    for same in (_exactly, _but_moved, _but_renamed):
        found, news, olds = paired(news, olds, same)
        pairs += found
    edited_, news, olds = _edited(news, olds)
    pairs += edited_
    lines = [GrownLine(new.where, new.source, old.bytes, new.bytes, new.ordered) for new, old in pairs]
    lines += [GrownLine(new.where, new.source, 0, new.bytes, new.ordered) for new in news]
    lines += [GrownLine(old.where, old.source, old.bytes, 0, old.ordered) for old in olds]
    yield from sorted(lines, key=lambda each: (each.was - each.now, -each.now, each.where))


def _exactly(each: HeldLine) -> Hashable:
    return each.file, each.function, each.line, each.source


def _but_moved(each: HeldLine) -> Hashable:
    return each.file, each.function, each.source


def _but_renamed(each: HeldLine) -> Hashable:
    return each.function, each.source, bool(each.file)


def _edited(
    news: list[HeldLine], olds: list[HeldLine]
) -> tuple[list[tuple[HeldLine, HeldLine]], list[HeldLine], list[HeldLine]]:
    """Pair what is left of a function, line by line, if as many lines are left in both runs: the code was edited."""
    new_left, old_left = (Counter(each.function for each in some) for some in (news, olds))

    def same(each: HeldLine) -> Hashable:
        if new_left[each.function] == old_left[each.function]:
            return each.function
        # No other line has it: where the numbers differ, nothing says which line became which.
        return id(each)

    news, olds = (sorted(some, key=lambda each: each.line) for some in (news, olds))
    return paired(news, olds, same)


def _held(session: Session, found: FoundMemory) -> list[HeldLine]:
    """Return what each line of a run holds at the peak."""
    held: dict[tuple[str | None, int | None], HeldLine] = {}
    for each in found.alive:
        if each.file is None:
            where = _NO_LINE
            file = ""
        else:
            where = place(session, each.file, each.line)
            file = place(session, each.file, None)
        made = HeldLine(where, file, each.line or 0, each.function or "", each.source)
        line = held.setdefault((each.file, each.line), made)
        line.bytes += each.bytes
        line.kinds[each.kind] = line.kinds.get(each.kind, 0) + each.bytes
    return list(held.values())


# Chosen: times of equal runs differ, too, above all on a busy machine; less than this is not called a change.
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
    # Before the graphs: `changes_of` takes what it explains out of `follow`, and `resized_changes` reports
    # what is left.
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
    if len(lacks) > 1:
        which = "neither run recorded look-ups"
    else:
        which = f"the {lacks[0]} run recorded no look-ups"
    return f"{which}: ctrace captures without torch's caches, except with ctrace time --compile"


def _lacking(what: str, in_before: bool, in_after: bool, before: Session, after: Session) -> str:
    """Say why a list that may be empty cannot be compared; empty if both runs recorded it."""
    lacks = [
        name
        for name, is_there, session in (("first", in_before, before), ("second", in_after, after))
        # An empty list says that there is none, if the run would have recorded one.
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
        which = "first" if one.built else "second"
        yield f"kernels were compiled and run in the {which} run only"
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


# Chosen: a change of torch's settings changes the first of them, and all others follow.
_MOST_COMPONENTS = 20
_Key = tuple[str, str, str, int]
"""Cache, graph part, kernel, and which look-up of these it is, from 0."""


def cache_changes(pairs: Pairs) -> Iterator[Change]:
    """Yield the look-ups that matched graphs do not share, and those with another outcome or another reason."""
    for old, new in pairs.both:
        before, after = _lookups(old), _lookups(new)
        # In the order of the later run, with what only the earlier one has at the end.
        for key in dict.fromkeys((*after, *before)):
            yield from _caches_between(before.get(key), after.get(key), f"{new.where}: {_named(key)}")


def _lookups(seen: RunGraph) -> dict[_Key, CacheLookup]:
    found: dict[_Key, CacheLookup] = {}
    for each in seen.session.compile_time.lookups:
        if each.graph == seen.graph.id:
            number = 0
            # One kernel may be looked up several times, such as after it was tuned.
            while (key := (each.cache, each.stage or "", each.kernel or "", number)) in found:
                number += 1
            found[key] = each
    return found


def _named(key: _Key) -> str:
    cache, stage, kernel, number = key
    again = ""
    if number:
        again = f"look-up {number + 1}"
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
    # Two hits under different keys found what they asked for.
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
    if text is None:
        return "not there"
    return text


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
    # As multisets: repeated layers have the same group many times.
    gone, come = list((was - now).elements()), list((now - was).elements())
    for group in list(gone):
        near = max(come, key=lambda other, group=group: _shared(group, other), default=None)  # type: ignore[misc]
        if near is not None and _shared(group, near):
            gone.remove(group)
            come.remove(near)
            # A node alone is fused with nothing: that its ops changed is said of the graph.
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
_FROM = re.compile(r"(?<=<module ')([\w.]+)' from '[^']*'(?=>)")
"""Where a module lies, in the text of a guard (before 2.13): another environment has it in another folder."""
_OF_CODE = re.compile(r'(?<= file ")(?:[^"]*/)?([^"/]+", line )\d+')
"""Where a code object lies, likewise."""
# Chosen: of one or two arguments, the whole text is as short as the difference.
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
    # In both runs, so that a renamed file alone changes no guard.
    return [replace(each, code=without_module(each.code, seen.graph.file)) for each in found]


def without_module(code: str, file: str) -> str:
    """Name classes of a file without its module: another name of the file is no other class."""
    here = PurePath(file).with_suffix("").parts

    def outside(module: re.Match[str]) -> str:
        parts = tuple(module[0].split(".")[:-1])
        if here[-len(parts) :] == parts:
            return ""
        return module[0]

    return re.sub(r"(?<=<class ')(?:\w+\.)+", outside, code)


def _guards_between(old: RunGraph, new: RunGraph) -> Iterator[Change]:
    olds, news = _guards(old), _guards(new)
    if olds is None or news is None:
        return
    # First those that check the same, then those that check another value of the same source.
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
    placed = _OF_CODE.sub(r"\1#", _FROM.sub(r"\1'", without_numbers(guard.code)))
    return _ID.sub("#", placed)


def _differing(before: Guard, guard: Guard) -> tuple[str, str]:
    """Write two versions of a guard; for a check with many arguments, only those that differ."""
    was, now = pieces(content(before)), pieces(content(guard))
    # A TENSOR_MATCH has its many parts inside of a call: `check_tensor(L['x'], ...)`.
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
    if at > 0 and code.endswith(")"):
        return code[at + 1 : -1]
    return code


def _guard_text(guard: Guard) -> str:
    name = about(guard)
    if name and name not in guard.code:
        return f"{name}: {content(guard)}"
    return content(guard)

"""Compare the memory of two runs that followed it: the peak, and what each line holds then.

Peaks are compared as both runs found them: measured with measured, otherwise computed with computed. What a line holds
is computed in any case.
"""

from collections import Counter
from collections.abc import Hashable, Iterator

from msgspec import Struct, field
from msgspec.structs import replace

from ctrace.inspector.facts.memory_facts import FoundMemory, MemoryPeak
from ctrace.inspector.facts.session import Session
from ctrace.inspector.features.compare.diff.changes import Change, ChangeKind, GrownLine, MemoryGrowth, What, edited
from ctrace.inspector.features.compare.diff.site_changes import place
from ctrace.inspector.findings.site_matching import paired
from ctrace.inspector.knowledge.words.counting import memory

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
        which = "neither run was" if len(lacks) > 1 else f"the {lacks[0]} run was not"
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
    measured = one.peak.measured and other.peak.measured
    was, now = (_peak(session, found, measured=measured) for session, found in ((before, one), (after, other)))
    return MemoryGrowth(was, now, tuple(_lines(before, one, after, other)))


def memory_changes(growth: MemoryGrowth | None) -> Iterator[Change]:
    """Yield the change of the peak, and of each line that holds much more then, or much less."""
    if growth is None:
        return
    largest = max(growth.was.bytes, growth.now.bytes)
    change = abs(growth.was.bytes - growth.now.bytes)
    if change and (not growth.was.measured or change >= _LITTLE * largest):
        yield edited(What.MEMORY, "run", _peak_text(growth.was), _peak_text(growth.now))
    for each in growth.lines:
        if abs(each.now - each.was) < _LITTLE * largest:
            continue
        was = f"{memory(each.was)} alive at the peak" if each.was else None
        of = ": ".join(filter(None, (", ".join(each.kinds), each.source)))
        now = f"{memory(each.now)} alive at the peak ({of})" if each.now else None
        if was is None:
            yield Change(What.MEMORY, ChangeKind.ADDED, each.where, now=now)
        elif now is None:
            yield Change(What.MEMORY, ChangeKind.REMOVED, each.where, was=f"{was} ({of})")
        else:
            yield edited(What.MEMORY, each.where, was, now)


def _peak_text(peak: MemoryPeak) -> str:
    part = "step of the optimizer" if peak.part == "optimizer" else peak.part
    how = "measured" if peak.measured else "computed"
    return f"peak {memory(peak.bytes)}, {how}, in the {part} at {peak.at or _NO_LINE}"


def _found(session: Session) -> FoundMemory | None:
    found = session.memory
    return None if found is None or found.why_not else found


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
        return id(each)

    news, olds = (sorted(some, key=lambda each: each.line) for some in (news, olds))
    return paired(news, olds, same)


def _held(session: Session, found: FoundMemory) -> list[HeldLine]:
    """Return what each line of a run holds at the peak."""
    held: dict[tuple[str | None, int | None], HeldLine] = {}
    for each in found.alive:
        where = _NO_LINE if each.file is None else place(session, each.file, each.line)
        file = "" if each.file is None else place(session, each.file, None)
        made = HeldLine(where, file, each.line or 0, each.function or "", each.source)
        line = held.setdefault((each.file, each.line), made)
        line.bytes += each.bytes
        line.kinds[each.kind] = line.kinds.get(each.kind, 0) + each.bytes
    return list(held.values())

"""Say what a ledger has seen: what is alive at a peak by kind and line, and how it came to that."""

import linecache
from collections.abc import Iterator, Mapping

from ctrace.inspector.facts.memory_facts import AliveMemory, KindBytes, MemoryMoment
from ctrace.inspector.features.memory.child.storage_ledger import Ledger, TrackedStorage
from ctrace.inspector.features.memory.memory_request import SavedAt

_MOST_MOMENTS = 400
"""The most points of a timeline: about as many as a page has pixels."""


def alive_of(alive: Mapping[TrackedStorage, int]) -> tuple[AliveMemory, ...]:
    """Return what is alive, by kind and line, the largest first."""
    grouped: dict[tuple[str, str | None, int | str | None], list[tuple[TrackedStorage, int]]] = {}
    for stored, size in alive.items():
        file, line, function = stored.origin
        grouped.setdefault((stored.kind, file, function if file is None else line), []).append((stored, size))
    found = [_group(kind, some) for (kind, _, _), some in grouped.items()]
    return tuple(sorted(found, key=lambda each: (-each.bytes, each.kind, each.file or "", each.line or 0)))


def _group(kind: str, some: list[tuple[TrackedStorage, int]]) -> AliveMemory:
    first = max(some, key=lambda each: each[1])[0]
    shapes = {each.shape for each, _ in some}
    dtypes = sorted({each.dtype for each, _ in some if each.dtype})
    file, line, function = first.origin
    return AliveMemory(
        bytes=sum(size for _, size in some),
        kind=kind,
        file=file,
        line=line,
        function=function,
        shape=next(iter(shapes)) if len(shapes) == 1 else None,
        dtype=", ".join(dtypes),
        count=len(some),
        source=source_line(file, line),
        op=first.op,
    )


def source_line(file: str | None, line: int | None) -> str:
    """Return a line of code; empty if it is not known."""
    return linecache.getline(file, line).strip() if file is not None and line is not None else ""


def saved_of(ledger: Ledger, device: str) -> tuple[SavedAt, ...]:
    """Return what each line saves for the backward."""
    return tuple(
        SavedAt(file, line, each.most, tuple(sorted(each.sizes)))
        for (file, line), each in ledger.saved(device).items()
        if each.most
    )


def timeline_of(ledger: Ledger, device: str) -> Iterator[MemoryMoment]:
    """Yield the largest moments of equal stretches of a step, so that none of its peaks is lost."""
    moments = list(ledger.moments(device))
    stretch = max(len(moments) * 2 // _MOST_MOMENTS, 1)
    kinds: dict[str, int] = {}
    for stored, size in ledger.before(device):
        kinds[stored.kind] = kinds.get(stored.kind, 0) + size
    for begin in range(0, len(moments), stretch):
        best = None
        for change, now in moments[begin : begin + stretch]:
            kinds[change.stored.kind] = kinds.get(change.stored.kind, 0) + change.bytes
            if best is None or now > best.bytes:
                known = tuple(KindBytes(kind, size) for kind, size in sorted(kinds.items()) if size)
                best = MemoryMoment(change.part, change.at, now, known)
        if best is not None:
            yield best

"""Match the sites of a run to those of the lock, even if code was moved, renamed, reformatted or edited."""

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from msgspec import Struct

from ctrace.inspector.facts.sites import Known, Site, SiteKey, SiteKind
from ctrace.inspector.source.statements import put_aside_names, put_aside_roots

New = TypeVar("New")
Old = TypeVar("Old")


class Matched(Struct, frozen=True):
    """Sites of a run, matched to those of the lock."""

    pairs: tuple[tuple[Site, Known], ...]
    new: tuple[Site, ...]
    gone: tuple[Known, ...]


def matched(sites: Iterable[Site], known: Iterable[Known]) -> Matched:
    """Pair each site with one of the lock: the same, else one that was moved or renamed, else one of the same function.

    An edited site counts as the old one if causes and function are the same, because their number has not grown.
    """
    new, gone, pairs = list(sites), list(known), []
    # From the strictest likeness to the loosest, each among what is left: a moved site must not take the place of one
    # that has not changed.
    for same in (_exactly, _but_moved, _but_renamed, _but_edited):
        found, new, gone = paired(new, gone, lambda each, same=same: same(each.key))  # type: ignore[misc]
        pairs += found
    return Matched(tuple(pairs), tuple(new), tuple(gone))


def _exactly(key: SiteKey) -> Hashable:
    return key


def _but_moved(key: SiteKey) -> Hashable:
    return key.kind, key.causes, key.owner, key.text


def _but_renamed(key: SiteKey) -> Hashable:
    if key.kind is SiteKind.RECOMPILE:
        # A decorator replaces the compiled function: the same values then come from the decorator's arguments.
        return key.kind, key.causes, put_aside_roots(key.text)
    return key.kind, key.causes, key.owner, put_aside_names(key.text)


def _but_edited(key: SiteKey) -> Hashable:
    return key.kind, key.causes, key.owner, key.place


def paired(
    news: Sequence[New], olds: Sequence[Old], same: Callable[[New | Old], Hashable]
) -> tuple[list[tuple[New, Old]], list[New], list[Old]]:
    """Pair items with equal keys in order, and keep the order of the rest.

    So a lock with fewer sites never lets more sites pass: each site finds the same match as before, or none.
    """
    waiting: dict[Hashable, deque[int]] = defaultdict(deque)
    for at, old in enumerate(olds):
        waiting[same(old)].append(at)
    pairs, left, taken = [], [], set()
    for new in news:
        candidates = waiting[same(new)]
        if candidates:
            taken.add(candidates[0])
            pairs.append((new, olds[candidates.popleft()]))
        else:
            left.append(new)
    return pairs, left, [old for at, old in enumerate(olds) if at not in taken]

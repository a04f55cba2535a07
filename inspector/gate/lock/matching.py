"""Match the sites of a run to those of the lock, even if code was moved, renamed, reformatted or edited."""

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable

from msgspec import Struct

from ctrace.inspector.gate.lock.statements import put_aside_names, put_aside_roots
from ctrace.inspector.gate.model import Known, Site, SiteKey, SiteKind


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
    for same in (_exactly, _but_moved, _but_renamed, _but_edited):
        found, new, gone = _paired(new, gone, same)
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


def _paired(
    sites: list[Site], known: list[Known], same: Callable[[SiteKey], Hashable]
) -> tuple[list[tuple[Site, Known]], list[Site], list[Known]]:
    """Pair sites in order, and keep the order of the rest.

    So a lock with fewer sites never lets more sites pass: each site finds the same match as before, or none.
    """
    waiting: dict[Hashable, deque[int]] = defaultdict(deque)
    for at, each in enumerate(known):
        waiting[same(each.key)].append(at)
    pairs, new, taken = [], [], set()
    for site in sites:
        candidates = waiting[same(site.key)]
        if candidates:
            taken.add(candidates[0])
            pairs.append((site, known[candidates.popleft()]))
        else:
            new.append(site)
    return pairs, new, [each for at, each in enumerate(known) if at not in taken]

"""Compare what torch's caches returned for matched graphs."""

from collections.abc import Iterator

from ctrace.inspector.facts.compile_time import CacheLookup, Outcome
from ctrace.inspector.features.compare.diff.changes import Change, How, What, edited
from ctrace.inspector.features.compare.diff.graphs import Pairs, RunGraph
from ctrace.inspector.findings.compile_time.components import components_of
from ctrace.inspector.findings.compile_time.keys import differences

_MOST_COMPONENTS = 20
_Key = tuple[str, str, str, int]
"""Cache, graph part, kernel, and which look-up of these it is, from 0."""


def cache_changes(pairs: Pairs) -> Iterator[Change]:
    """Yield the look-ups that matched graphs do not share, and those with another outcome or another reason."""
    for old, new in pairs.both:
        before, after = _lookups(old), _lookups(new)
        for key in dict.fromkeys((*after, *before)):
            yield from _between(before.get(key), after.get(key), f"{new.where}: {_named(key)}")


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


def _between(was: CacheLookup | None, now: CacheLookup | None, where: str) -> Iterator[Change]:
    if was is None and now is not None:
        yield Change(What.CACHE, How.ADDED, where, now=_text(now))
    elif now is None and was is not None:
        yield Change(What.CACHE, How.REMOVED, where, was=_text(was))
    elif was is not None and now is not None and _text(was) != _text(now):
        yield edited(What.CACHE, where, _text(was), _text(now), tuple(_reasons(was, now)))


def _text(lookup: CacheLookup) -> str:
    """Return the outcome, and why torch bypassed the cache."""
    return f"{lookup.outcome} ({lookup.reason})" if lookup.reason else str(lookup.outcome)


def _reasons(was: CacheLookup, now: CacheLookup) -> Iterator[str]:
    """Yield the components of the key that differ, if one of the two look-ups missed."""
    if Outcome.MISS not in (was.outcome, now.outcome):
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

"""Read what one rank recorded about one compilation, to show how two ranks differ."""

from ctrace.inspector.features.compare.ranks.content import Item, items_of
from ctrace.inspector.features.compare.ranks.summary import Kind, Lines, Places
from ctrace.inspector.log.folders import LogFile, opened_log
from ctrace.inspector.log.reader import Broken

_NAMED = (Kind.INPUT, Kind.CACHE_KEY)
"""Kinds whose items have names, so that their order does not matter."""


def items_in(log: LogFile, compile_id: str, kind: Kind) -> list[Item]:
    """Return the items of a kind that the last attempt of a compilation recorded.

    Raises:
        RunError: it cannot be read, or its parts cannot be joined.
    """
    places = Places()
    found: list[Item] = []
    with opened_log(log) as file:
        for entry in Lines().wanted(file):
            if isinstance(entry, Broken):
                continue
            places.learn(entry)
            if places.id_of(entry) != compile_id:
                continue
            if entry.kind == "dynamo_start" and kind is not Kind.RECOMPILE:
                found.clear()
            for each, items in items_of(entry):
                if each == kind:
                    found += items
    return found


def first_difference(base: list[Item], other: list[Item], kind: Kind) -> tuple[Item | None, Item | None]:
    """Return the first item in which two ranks differ, on both sides; None where a side has no such item."""
    if kind in _NAMED:
        return _by_name(base, other)
    for one, two in zip(base, other, strict=False):
        if one.same != two.same:
            return one, two
    at = min(len(base), len(other))
    return next(iter(base[at:]), None), next(iter(other[at:]), None)


def _by_name(base: list[Item], other: list[Item]) -> tuple[Item | None, Item | None]:
    """Compare named items in any order; first those that both ranks have."""
    named = {item.key: item for item in other}
    for one in base:
        two = named.get(one.key)
        if two is not None and one.same != two.same:
            return one, two
    names = {item.key for item in base}
    lone = next((item for item in base if item.key not in named), None)
    return lone, None if lone else next((item for item in other if item.key not in names), None)

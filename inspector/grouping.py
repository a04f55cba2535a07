"""Group things by what they have in common, in the order in which they come."""

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


def grouped(values: Iterable[_Value], key: Callable[[_Value], _Key]) -> dict[_Key, list[_Value]]:
    """Map each key to the values that have it."""
    return collected((key(each), each) for each in values)


def collected(pairs: Iterable[tuple[_Key, _Value]]) -> dict[_Key, list[_Value]]:
    """Map each key to the values that come with it."""
    found: dict[_Key, list[_Value]] = {}
    for key, value in pairs:
        # Not itertools.groupby, which groups neighbors only, and would need the values sorted.
        found.setdefault(key, []).append(value)
    return found

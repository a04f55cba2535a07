"""Read typed values from a log's JSON, and reject a value of the wrong type or out of range."""

import json
from typing import Any

import msgspec

from ctrace.inspector.log.reading_limits import refuse_many_values

Object = dict[str, Any]
_UNBOUNDED = frozenset((str, list, dict, bool))
_TEXTS = {str}
_MOST = 10**30
"""The largest number to accept: above all sizes and rates, and far below float overflow."""


_decode = msgspec.json.Decoder().decode


def loaded(text: str) -> Any:
    """Decode the JSON of a payload.

    Raises:
        ValueError, RecursionError: it is not JSON, or has too many values.
    """
    refuse_many_values(text)
    try:
        return _decode(text)
    except (msgspec.MsgspecError, UnicodeError):
        return json.loads(text)  # takes twice the time; also takes NaN, and describes what is wrong


class Fields:
    """The fields of one JSON object.

    A lookup raises KeyError for a missing field, TypeError for a value of another type, and ValueError for a number
    that is not finite or beyond 10**30.
    """

    def __init__(self, data: Any, what: str) -> None:
        if not isinstance(data, dict):
            msg = f"{what} is a {type(data).__name__}, not an object"
            raise TypeError(msg)
        self._data: Object = data
        self._what = what

    def text(self, name: str) -> str:
        """Return a string."""
        return str(self._get(name, str))

    def maybe_text(self, name: str) -> str | None:
        """Return a string, or None for null and for a missing field."""
        if self._data.get(name) is None:
            return None
        return self.text(name)

    def integer(self, name: str) -> int:
        """Return a whole number."""
        return int(self._get(name, int))

    def maybe_number(self, name: str) -> float | None:
        """Return a number, or None for null and for a missing field."""
        if self._data.get(name) is None:
            return None
        return float(self._get(name, int | float))

    def number(self, name: str) -> float:
        """Return a number."""
        return float(self._get(name, int | float))

    def is_null(self, name: str) -> bool:
        """Whether a field is null or missing."""
        return self._data.get(name) is None

    def has(self, name: str) -> bool:
        """Whether a field exists."""
        return name in self._data

    def object(self, name: str) -> "Fields":
        """Return an object."""
        return Fields(self._data[name], f"{self._what}: {name}")

    def texts(self, name: str) -> tuple[str, ...]:
        """Return strings."""
        found = self._get(name, list)
        return tuple(found if _TEXTS.issuperset(map(type, found)) else self._items(name, str))

    def objects(self, name: str) -> tuple["Fields", ...]:
        """Return objects."""
        what = f"an item of {name}"
        return tuple([Fields(item, what) for item in self._get(name, list)])

    def maybe_lists(self, name: str) -> dict[str, list[Any]]:
        """Return a dict of lists with unchecked items; empty for a missing field."""
        if name in self._data:
            return self._table(name, list)
        return {}

    def maybe_list(self, name: str) -> list[Any]:
        """Return a list with unchecked items; empty for a missing field."""
        if name in self._data:
            return list(self._get(name, list))
        return []

    def _get(self, name: str, kind: Any) -> Any:
        value = self._data[name]
        # By exact type, as `True` is an int, and an unbounded integer could not become a float.
        if type(value) is kind and (kind in _UNBOUNDED or (kind is int and -_MOST <= value <= _MOST)):
            return value  # the fast path for most values: it formats no error text
        return _checked(value, kind, f"{self._what}: {name}")

    def _items(self, name: str, kind: Any) -> list[Any]:
        """Check items one by one; the fast checks have refused some of them."""
        return [_checked(item, kind, f"an item of {name}") for item in self._get(name, list)]

    def _table(self, name: str, kind: Any) -> Object:
        found: Object = self._get(name, dict)
        if kind in _UNBOUNDED and all(type(value) is kind for value in found.values()):  # as in `_get`
            return found
        return {key: _checked(value, kind, f"{name}[{key!r}]") for key, value in found.items()}


def _checked(value: Any, kind: Any, what: str) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        msg = f"{what} is a {type(value).__name__}"
        raise TypeError(msg)
    if isinstance(value, int | float) and not -_MOST <= value <= _MOST:  # false for NaN
        msg = f"{what} is out of range"
        raise ValueError(msg)
    return value

"""Check values of the policy: each function returns the typed value, or raises an error that names the line."""

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from typing import TypeVar

from ctrace.inspector.errors import PolicyError
from ctrace.inspector.features.check.policy.yaml_nodes import YamlNode, wrong
from ctrace.inspector.knowledge.gpus.yaml_file import near, shown

_Value = TypeVar("_Value")
_Default = TypeVar("_Default")
_NAME = 300
"""Maximum length of a path or a name."""
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600}
_LONGEST = 7 * 24 * 3600
_UNITS = {"": 0, "b": 0, "kib": 10, "mib": 20, "gib": 30}
"""Powers of two."""
_MEASURE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?) ?([A-Za-z]*)")


def table(node: YamlNode, known: Iterable[str]) -> Mapping[str, YamlNode]:
    """Return a table with known keys only; an empty value is an empty table.

    Raises:
        PolicyError: it is not a table, or has an unknown key.
    """
    names = tuple(known)
    for key, child in any_table(node).items():
        if key not in names:
            raise wrong(
                child, f"unknown key {shown(key) or 'without a name'} in {node.name or 'the policy'}", near(key, names)
            )
    return any_table(node)


def any_table(node: YamlNode) -> Mapping[str, YamlNode]:
    """Return a table with any keys; an empty value is an empty table.

    Raises:
        PolicyError: it is not a table.
    """
    if node.value is None:
        return {}
    if not isinstance(node.value, dict):
        raise refused(node, "a table", "write it as lines of key: value")
    return node.value


def optional(
    keys: Mapping[str, YamlNode], key: str, read: Callable[[YamlNode], _Value], default: _Default
) -> _Value | _Default:
    """Read the value of a key, or return the default if the table does not have it.

    Raises:
        PolicyError: `read` refuses the value.
    """
    return read(keys[key]) if key in keys else default


def entries(node: YamlNode) -> tuple[YamlNode, ...]:
    """Return the entries of a list; a single value counts as a list of one, an empty value as an empty list."""
    if isinstance(node.value, tuple):
        return node.value
    return () if node.value is None else (node,)


def text(node: YamlNode) -> str:
    """Return non-empty text.

    Raises:
        PolicyError: it is not text, or empty.
    """
    if isinstance(node.value, str) and node.value.strip():
        return node.value.strip()
    todo = "put it in quotes" if isinstance(node.value, bool | int | float) else "write a text"
    raise refused(node, "a text", todo)


def name(node: YamlNode) -> str:
    """Return text that can be a name or a path.

    Raises:
        PolicyError: it is not text, empty, or has characters that no name has.
    """
    found = text(node)
    if not found.isprintable() or len(found) > _NAME:
        raise refused(node, "a name", f"write it on one line, with at most {_NAME} characters and no invisible ones")
    return found


def flag(node: YamlNode) -> bool:
    """Return true or false.

    Raises:
        PolicyError: it is something else.
    """
    if isinstance(node.value, bool):
        return node.value
    raise refused(node, "true or false", "write true or false")


def whole(node: YamlNode) -> int:
    """Return a whole number, 0 or more.

    Raises:
        PolicyError: it is something else.
    """
    if isinstance(node.value, int) and not isinstance(node.value, bool) and node.value >= 0:
        return node.value
    raise refused(node, "a whole number of 0 or more", "write one, such as 0, or remove the line for no limit")


def percent(node: YamlNode) -> float:
    """Return a number from 0 to 100.

    Raises:
        PolicyError: it is something else.
    """
    if isinstance(node.value, int | float) and not isinstance(node.value, bool) and 0 <= node.value <= 100:
        return float(node.value)
    raise refused(node, "a percentage", "write a number from 0 to 100, such as 99.5")


def size(node: YamlNode) -> int:
    """Return a number of bytes, written as 4096 or as 1.5MiB.

    Raises:
        PolicyError: it is something else.
    """
    measured = _measure(node, _UNITS)
    if measured is not None:
        return int(measured[0] * 2 ** measured[1])
    raise refused(node, "a number of bytes", "write 0, 4096, 64KiB, 1MiB or 2GiB")


def seconds(node: YamlNode) -> float:
    """Return a duration in seconds, written as 600, 90s, 10m or 1h.

    Raises:
        PolicyError: it is something else, zero, or longer than a week.
    """
    measured = _measure(node, _SECONDS)
    if measured is not None and 0 < measured[0] * measured[1] <= _LONGEST:
        return measured[0] * measured[1]
    raise refused(node, "a time", "write seconds, such as 600, or 90s, 10m or 1h; at most a week")


def day(node: YamlNode) -> date:
    """Return a day, written as 2027-01-31.

    Raises:
        PolicyError: it is something else.
    """
    if isinstance(node.value, str) and re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", node.value):
        try:
            return date.fromisoformat(node.value)
        except ValueError:
            raise refused(node, "a valid date", "write year, month and day, such as 2027-01-31") from None
    raise refused(node, "a day", "write year, month and day, such as 2027-01-31")


def refused(node: YamlNode, expected: str, todo: str) -> PolicyError:
    """Return an error that says what a value is and what it should be."""
    return wrong(node, f"{node.name or 'the file'} is {_kind_words(node.value)}, not {expected}", todo)


def _measure(node: YamlNode, units: Mapping[str, int]) -> tuple[float, int] | None:
    """Split a measure into its number and the factor of its unit; return None for any other text."""
    if isinstance(node.value, bool) or not isinstance(node.value, int | float | str):
        return None
    found = _MEASURE.fullmatch(str(node.value))
    if found is None or found[2].lower() not in units:
        return None
    return float(found[1]), units[found[2].lower()]


def _kind_words(value: object) -> str:
    match value:
        case None:
            return "nothing"
        case bool():
            return str(value).lower()
        case tuple():
            return "a list"
        case dict():
            return "a table"
        case str() if not value.strip():
            return "an empty text"
    return shown(value)

"""The kinds of values in a policy, and how a table becomes the fields of a Struct.

A field's type is a type for msgspec, whose `Meta` has the words of an error: what is expected (`title`) and what to
write (`description`). Where a check needs more, a function in the annotation reads the value. Each function raises
PolicyError for a value that is something else.

msgspec converts one value at a time. In a whole file, it stops at the first mistake, even if an unknown key explains
it, and its path names no line, nor keys that the author chose; here, the node knows both.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from functools import partial
from typing import Annotated, Any, get_args

from msgspec import Meta, Struct, ValidationError, convert, structs

from ctrace.inspector.errors import PolicyError, near, shown
from ctrace.inspector.files.yaml_file import YamlNode, wrong

_LONGEST_NAME = 300
"""Maximum length of a path or a name."""
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600}
# Chosen: a week; a longer timeout is a slip, such as milliseconds.
_LONGEST = 7 * 24 * 3600
_UNITS = {"": 1, "b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}
_MEASURE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?) ?([A-Za-z]*)")
_GB = re.compile(r"GB[0-9]{1,9}", re.IGNORECASE)
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_WRITE_DAY = "write year, month and day, such as 2027-01-31"
_WRITE_WHOLE = "write one, such as 0, or remove the line for no limit"
_WRITE_TIME = "write seconds, such as 600, or 90s, 10m or 1h; at most a week"


def read_fields(
    node: YamlNode, kind: type[Struct], keys: Iterable[str], **readers: Callable[[YamlNode], Any]
) -> dict[str, Any]:
    """Read a table with these keys only as the fields of a Struct; `readers` read fields that need more than a type."""
    children = table(node, keys)
    values = {}
    for field in structs.fields(kind):
        if field.encode_name in children:
            reader: Callable[[YamlNode], Any] = readers.get(field.name, partial(read, kind=field.type))
            values[field.name] = reader(children[field.encode_name])
    return values


def table(node: YamlNode, known: Iterable[str] | None = None) -> Mapping[str, YamlNode]:
    """Return a table, with known keys only, or with any keys; an empty value is an empty table."""
    if node.value is None:
        return {}
    if not isinstance(node.value, dict):
        raise refused(node, "a table", "write it as lines of key: value")
    names = tuple(node.value if known is None else known)
    for key, child in node.value.items():
        if key not in names:
            what = f"unknown key {shown(key) or 'without a name'} in {node.name or 'the policy'}"
            raise wrong(child, what, near(key, names))
    return node.value


def entries(node: YamlNode) -> tuple[YamlNode, ...]:
    """Return the entries of a list; a single value counts as a list of one, an empty value as an empty list."""
    if isinstance(node.value, tuple):
        return node.value
    if node.value is None:
        return ()
    return (node,)


def read(node: YamlNode, kind: Any) -> Any:
    """Read a value as an annotated type; None in the type says that the key may be missing."""
    kind = next(each for each in (kind, *get_args(kind)) if hasattr(each, "__metadata__"))
    note = kind.__metadata__[0]
    if callable(note):
        return note(node)
    return _converted(node, node.value, kind)


def _converted(node: YamlNode, value: object, kind: Any) -> Any:
    """Convert what a node's value says."""
    try:
        return convert(value, kind)
    except ValidationError:
        words = kind.__metadata__[0]
        raise refused(node, words.title, words.description) from None


def text(node: YamlNode) -> str:
    """Return non-empty text."""
    if isinstance(node.value, str) and node.value.strip():
        return node.value.strip()
    todo = "put it in quotes" if isinstance(node.value, bool | int | float) else "write a text"
    raise refused(node, "a text", todo)


def name(node: YamlNode) -> str:
    """Return text that can be a name or a path."""
    found = text(node)
    if not found.isprintable() or len(found) > _LONGEST_NAME:
        todo = f"write it on one line, with at most {_LONGEST_NAME} characters and no invisible ones"
        raise refused(node, "a name", todo)
    return found


def _gb(node: YamlNode) -> str:
    written = name(node)
    if not _GB.fullmatch(written):
        raise wrong(node, f"{shown(written)} is not a gb id", "write it as ctrace breaks shows it, such as GB0170")
    return written.upper()


def _day(node: YamlNode) -> date:
    if not isinstance(node.value, str) or not _DAY.fullmatch(node.value):
        raise refused(node, "a day", _WRITE_DAY)
    found: date = _converted(node, node.value, _ValidDate)
    return found


def _size(node: YamlNode) -> int:
    measured = _measured(node, _UNITS)
    if measured is None:
        raise refused(node, "a number of bytes", "write 0, 4096, 64KiB, 1MiB or 2GiB")
    return int(measured)


def _time(node: YamlNode) -> float:
    found: float = _converted(node, _measured(node, _SECONDS), _Seconds)
    return found


def _measured(node: YamlNode, units: Mapping[str, int]) -> float | None:
    """Return a number times the factor of its unit; None for any other text."""
    if isinstance(node.value, bool) or not isinstance(node.value, int | float | str):
        return None
    found = _MEASURE.fullmatch(str(node.value))
    if found is None or found[2].lower() not in units:
        return None
    return float(found[1]) * units[found[2].lower()]


_ValidDate = Annotated[date, Meta(title="a valid date", description=_WRITE_DAY)]
_Seconds = Annotated[float, Meta(gt=0, le=_LONGEST, title="a time", description=_WRITE_TIME)]
Flag = Annotated[bool, Meta(title="true or false", description="write true or false")]
Whole = Annotated[int, Meta(ge=0, title="a whole number of 0 or more", description=_WRITE_WHOLE)]
Percent = Annotated[
    float, Meta(ge=0, le=100, title="a percentage", description="write a number from 0 to 100, such as 99.5")
]
Text = Annotated[str, text]
Name = Annotated[str, name]
GbId = Annotated[str, _gb]
Day = Annotated[date, _day]
Size = Annotated[int, _size]
"""A number of bytes, written as 4096 or as 1.5MiB."""
Time = Annotated[float, _time]
"""Seconds, written as 600, 90s, 10m or 1h."""


def refused(node: YamlNode, expected: str, todo: str) -> PolicyError:
    """Return an error that says what a value is and what it should be."""
    return wrong(node, f"{node.name or 'the file'} is {_kind_words(node.value)}, not {expected}", todo)


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

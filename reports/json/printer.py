"""Print a view's Document, or any other Struct, as JSON.

A Struct is an object with its fields in order, unless its class has `JSON`: a line of words, each of which declares a
name of the object, the attribute behind it, and a format:

    calls              the attribute of that name
    line=place.line    an attribute of an attribute; null if one of them is None
    file|relative      in one of `FORMATS`
    source?has_code    left out unless that attribute of the Struct is true; with `!` before it, if it is
    *cost              all names of the Struct or mapping in that attribute that are not declared before; none if it is
                       None
    schema             `SCHEMA`

`make schemas` reads the same words, and takes types and descriptions from the fields behind them.

Names are fixed: new ones may come, old ones never change.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from ctrace.inspector.source.source_names import user_name
from ctrace.reports import format as fmt
from ctrace.reports.escape import SafeText, json_text

SCHEMA = 1
"""The version of the JSON reports; raise it if a name or its meaning changes."""
ALL = "*"
"""The name that stands for all names of a Struct or mapping in an attribute."""


class _Line(Struct, frozen=True):
    file: str
    line: int


class JsonField(Struct, frozen=True):
    """A name of an object, the attributes that lead to its value, and the format of the value."""

    name: str
    path: tuple[str, ...]
    form: str = ""
    condition: str = ""
    """The attribute that says whether the name is printed, perhaps with `!` before it; empty: it always is."""

    def is_printed(self, record: Struct) -> bool:
        """Whether the object of a Struct has the name."""
        if not self.condition:
            return True
        return bool(getattr(record, self.condition.removeprefix("!"))) != self.condition.startswith("!")


@cache
def json_fields(kind: type[Struct]) -> tuple[JsonField, ...]:
    """Return what is printed of a Struct, in order."""
    words = getattr(kind, "JSON", "") or " ".join(kind.__struct_fields__)
    return tuple(map(_field, words.split()))


def _field(word: str) -> JsonField:
    word, _, condition = word.partition("?")
    # `*cost` is read as `*=cost`: a name and an attribute, as any other word.
    declared, _, form = word.replace(ALL, f"{ALL}=").partition("|")
    name, _, path = declared.partition("=")
    return JsonField(name, tuple((path or name).split(".")), form, condition)


def _counts(pairs: Iterable[tuple[str, int]], _cwd: str) -> dict[str, int]:
    return dict(pairs)


def _lines(lines: tuple[str, ...], cwd: str) -> list[_Line]:
    """Split `file:line`."""
    # From the right, since a path of Windows has a colon.
    parted = (line.rpartition(":") for line in lines)
    return [_Line(fmt.relative(file, cwd), int(number)) for file, _, number in parted]


def _names(named: Iterable[Any], _cwd: str) -> list[str]:
    return [each.name for each in named]


def _moment(seconds: float | None, _cwd: str) -> str | None:
    """Write seconds since the epoch as a date and a time."""
    if seconds is None:
        return None
    # In UTC, so that the report is the same wherever it is printed.
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _null_if_empty(value: object, _cwd: str) -> object:
    return value or None


def _relative(file: str | None, cwd: str) -> object:
    """Shorten the path of a file in the run's working directory."""
    if file:
        return fmt.relative(file, cwd)
    return file


def _number(text: str, _cwd: str) -> float | None:
    """Read a number, such as one that may be `nan`."""
    try:
        return float(text)
    except ValueError:
        return None


def _path(file: str | None, cwd: str) -> object:
    """Shorten a path, and make it safe to show."""
    return fmt.path(file, cwd) if file else file


def _place(text: str | None, cwd: str) -> object:
    """Shorten the path of `file:line`; leave anything else as it is."""
    file, colon, line = (text or "").rpartition(":")
    if colon and line.isdecimal():
        return f"{fmt.relative(file, cwd)}:{line}"
    return text


def places(lines: tuple[str, ...], cwd: str) -> list[str]:
    """Shorten the paths of `file:line`."""
    parted = (line.rpartition(":") for line in lines)
    return [f"{fmt.relative(file, cwd)}:{number}" for file, _, number in parted]


def _places_of_both(pair: tuple[tuple[str, ...], tuple[str, ...]], cwd: str) -> tuple[list[str], list[str]]:
    """Shorten the paths of `file:line` of two nodes."""
    first, second = pair
    return places(first, cwd), places(second, cwd)


def _dotted(numbers: tuple[int, ...], _cwd: str) -> str:
    return ".".join(map(str, numbers))


def _rounded(number: float | None, _cwd: str) -> float | None:
    if number is None:
        return None
    return round(number, 2)


def _truth(value: object, _cwd: str) -> bool:
    """Take what is not known for false."""
    return bool(value)


def _user_name(name: str, _cwd: str) -> str:
    """Name what torch calls `L['x']` as the user does."""
    return user_name(name) if name else ""


FORMATS: dict[str, Callable[[Any, str], object]] = {
    "counts": _counts,
    "dotted": _dotted,
    "lines": _lines,
    "moment": _moment,
    "names": _names,
    "null_if_empty": _null_if_empty,
    "number": _number,
    "path": _path,
    "place": _place,
    "places": places,
    "places_of_both": _places_of_both,
    "relative": _relative,
    "rounded": _rounded,
    "truth": _truth,
    "user_name": _user_name,
}


def render(document: Any) -> SafeText:
    """Write a Document, indented, with a final newline."""
    return json_text(plain(document, ""))


def plain(value: object, cwd: str) -> Any:
    """Return a value as plain data; paths of files in the working directory, a Document's own, become relative."""
    if isinstance(value, Struct):
        return _object(value, getattr(value, "cwd", cwd))
    if isinstance(value, Mapping):
        return {str(name): plain(each, cwd) for name, each in value.items()}
    if isinstance(value, tuple | list):
        return [plain(each, cwd) for each in value]
    # Documents have folders as such, which json.dumps cannot write.
    if isinstance(value, Path):
        return str(value)
    return value


def _object(record: Struct, cwd: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for each in json_fields(type(record)):
        if each.name == ALL:
            # Twice: what was declared before keeps its place by the first, and its value by the second.
            found = {**found, **(_printed(record, each, cwd) or {}), **found}
        elif each.name == "schema":
            found["schema"] = SCHEMA
        elif each.is_printed(record):
            found[each.name] = _printed(record, each, cwd)
    return found


def _printed(value: Any, declared: JsonField, cwd: str) -> Any:
    for name in declared.path:
        if value is None:
            return None
        value = getattr(value, name)
    if declared.form:
        value = FORMATS[declared.form](value, cwd)
    return plain(value, cwd)

"""Read untrusted JSON into Structs, and check every field, type and range."""

import json
import os
import stat
import types
from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from msgspec import NODEFAULT, Struct

MOST_BYTES = 64 << 20
"""The maximum size of a file; ctrace's files have a few KiB, but may contain a long message of the user's program."""
# Counted before parsing, because a short text of a foreign file can hold millions of values, each an object.
_MOST_VALUES = 1_000_000
MOST = 10**30
"""The largest number to accept: above all sizes and rates, and far below float overflow."""
_T = TypeVar("_T")


def read_text(path: Path, most: int = MOST_BYTES) -> str:
    """Read a text file, but refuse pipes and devices, which may never end, and files that are too long.

    Raises:
        OSError: it cannot be read.
        ValueError: it is not a regular file, is too long or is not UTF-8.
    """
    # Without O_NONBLOCK, opening a pipe waits for a writer.
    with os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("not a regular file")
        # One byte more than allowed shows that the file is longer, without reading the rest.
        data = file.read(most + 1)
    if len(data) > most:
        raise ValueError(f"longer than {most >> 20} MiB")
    return data.decode("utf-8")


def read_object(path: Path) -> dict[str, Any]:
    """Read a file with one JSON object.

    Raises:
        OSError: it cannot be read.
        ValueError: it has other content, an object with a duplicate name, or values nested too deeply.
    """
    return parsed_object(read_text(path))


def parsed_object(text: str) -> dict[str, Any]:
    """Parse one JSON object.

    Raises:
        ValueError: the text is something else, an object with a duplicate name, or nested too deeply.
    """
    try:
        if text.count(",") > _MOST_VALUES:
            raise ValueError(f"more than {_MOST_VALUES:,} values")
        data = json.loads(text, object_pairs_hook=_refuse_duplicates, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return typed(dict, data, "the file")


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) != len(pairs):
        raise ValueError("an object has the same name twice")
    return data


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def typed(kind: type[_T], data: Any, what: str) -> _T:
    """Convert JSON to a value of a type, such as a Struct.

    Raises:
        ValueError: the JSON has another type, is out of range, lacks a field or has an unknown field.
    """
    return cast("_T", _typed(kind, data, what))


def _typed(kind: Any, data: Any, what: str) -> Any:
    origin = get_origin(kind)
    if origin in (types.UnionType, Union):
        return _optional(kind, data, what)
    if origin is tuple:
        return _tuple(get_args(kind), _of(list, data, what), what)
    if origin is Mapping:
        value = get_args(kind)[1]
        return {name: _typed(value, each, f"{what}[{name!r:.60}]") for name, each in _of(dict, data, what).items()}
    if issubclass(kind, Struct):
        return _struct(kind, _of(dict, data, what), what)
    if issubclass(kind, Enum):
        return _member(kind, data, what)
    if kind in (int, float):
        return _number(kind, data, what)
    return _of(kind, data, what)


def _optional(kind: Any, data: Any, what: str) -> Any:
    if data is None and type(None) in get_args(kind):
        return None
    (inner,) = (each for each in get_args(kind) if each is not type(None))
    return _typed(inner, data, what)


def _tuple(items: tuple[Any, ...], data: list[Any], what: str) -> tuple[Any, ...]:
    if items[1:] == (...,):
        return tuple(_typed(items[0], each, f"an item of {what}") for each in data)
    if len(items) != len(data):
        raise ValueError(f"{what} has {len(data)} items, not {len(items)}")
    return tuple(_typed(item, each, f"an item of {what}") for item, each in zip(items, data, strict=True))


def _struct(kind: type[Struct], data: dict[str, Any], what: str) -> Any:
    # The names in JSON may differ from those of the fields (`rename`, `field(name=...)`).
    names = dict(zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True))
    if unknown := data.keys() - names.keys():
        raise ValueError(f"{what} has an unknown field: {min(unknown)!r:.60}")
    if missing := [name for name in required_names(kind) if name not in data]:
        raise ValueError(f"{what} has no {missing[0]}")
    hints = _hints(kind)
    return kind(**{names[name]: _typed(hints[names[name]], value, name) for name, value in data.items()})


def required_names(kind: type[Struct]) -> tuple[str, ...]:
    """Return the names in JSON of the fields without a default."""
    names, defaults = kind.__struct_encode_fields__, kind.__struct_defaults__  # the last fields have the defaults
    padded = (NODEFAULT,) * (len(names) - len(defaults)) + defaults
    return tuple(name for name, default in zip(names, padded, strict=True) if default is NODEFAULT)


@lru_cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _member(kind: type[Enum], data: Any, what: str) -> Enum:
    try:
        return kind(_of(str, data, what))
    except ValueError:
        raise ValueError(f"{what} is {data!r:.60}, none of {', '.join(str(each.value) for each in kind)}") from None


def _number(kind: type[int | float], data: Any, what: str) -> int | float:
    """Check a number; an integer is also a valid float."""
    # JavaScript, for one, writes 3.0 as 3.
    found = _of(int, data, what) if isinstance(data, int) else _of(kind, data, what)
    if not -MOST <= found <= MOST:  # false for NaN
        raise ValueError(f"{what} is out of range")
    return kind(found)


def _of(kind: type[_T], data: Any, what: str) -> _T:
    if not isinstance(data, kind) or (isinstance(data, bool) and kind is not bool):
        raise ValueError(f"{what} is {_kind_of(data)}")
    return data


_KINDS = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}


def _kind_of(data: Any) -> str:
    return _KINDS.get(type(data), "a number")

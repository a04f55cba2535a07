"""Read run.json and check it, so that a hostile file breaks only its own run."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from ctrace.inspector.facts.outcome import Failure, Target
from ctrace.inspector.files.typed_json import read_object, typed

_LAST = 253_402_300_799
"""The last second of the year 9999, the latest time that `datetime` supports."""
_MOST_PID = 2**31 - 1
_WORD = re.compile(r"[a-z][a-z_ -]{0,39}")
_COUNTS = frozenset(("graphs", "breaks", "skipped", "recompiles"))
_MOST_COUNT = 10**9


class NewerSchemaError(ValueError):
    """A newer ctrace wrote the file."""

    def __init__(self, schema: int) -> None:
        super().__init__(f"schema {schema}")
        self.schema = schema


class SavedInfo(Struct, frozen=True):
    """The fields of run.json."""

    target: Target
    created: float
    pid: int
    status: str
    seconds: float | None
    failure: Failure | None
    summary: Mapping[str, Any] = field(default_factory=dict)


def read_info(path: Path, schema: int) -> SavedInfo:
    """Read run.json.

    Raises:
        OSError: it cannot be read.
        NewerSchemaError: its schema is above `schema`.
        ValueError: it does not have the form that ctrace writes.
    """
    data = read_object(path)
    found = _field(data, "schema", int)
    if found > schema:
        raise NewerSchemaError(found)
    if found < 1:
        raise ValueError(f"schema is {found}")
    failure = data.get("failure")
    return SavedInfo(
        target=_field(data, "target", Target),
        created=_within(_field(data, "created", float), 0, _LAST, "created"),
        pid=int(_within(_field(data, "pid", int), 1, _MOST_PID, "pid")),
        status=_word(_field(data, "status", str), "status"),
        seconds=_seconds(data.get("seconds")),
        failure=None if failure is None else typed(Failure, failure, "failure"),
        summary=_summary(data.get("summary")),
    )


def _field(data: dict[str, Any], name: str, kind: type[Any]) -> Any:
    if name not in data:
        raise ValueError(f"there is no {name}")
    return typed(kind, data[name], name)


def _within(number: float, least: float, most: float, what: str) -> float:
    if not least <= number <= most:
        raise ValueError(f"{what} is out of range")
    return number


def _word(text: str, what: str) -> str:
    if not _WORD.fullmatch(text):
        raise ValueError(f"{what} is {text!r:.60}")
    return text


def _seconds(data: Any) -> float | None:
    return None if data is None else _within(typed(float, data, "seconds"), 0, _LAST, "seconds")


def _summary(data: Any) -> dict[str, Any]:
    """Check the counts and the verdict in the summary, and that entries of later versions of ctrace are scalars."""
    summary: dict[str, Any] = typed(dict, data, "summary")
    for name in summary.keys() & _COUNTS:
        _within(typed(int, summary[name], name), 0, _MOST_COUNT, name)
    if "verdict" in summary:
        _word(typed(str, summary["verdict"], "verdict"), "verdict")
    for name in summary.keys() & {"torch", "target_gpu", "branch", "commit"}:
        typed(str, summary[name] or "", name)
    for name, value in summary.items():
        _check_scalar(value, f"summary: {name!r:.60}")
    return summary


def _check_scalar(value: Any, what: str) -> None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        typed(float, value, what)
    elif value is not None and not isinstance(value, str | bool):
        raise ValueError(f"{what} is not a scalar")

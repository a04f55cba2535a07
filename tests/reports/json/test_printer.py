"""What a Struct becomes in JSON."""

import json
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar

import pytest
import schemas
import shapes
from msgspec import Struct

from ctrace.reports.json.printer import json_fields, plain, render


class Color(StrEnum):
    RED = "red"


class Place(Struct, frozen=True):
    """Where it is."""

    JSON: ClassVar[str] = "file|relative line"
    file: str | None
    line: int | None = None
    """From 1."""


class Found(Struct, frozen=True):
    """What was found."""

    JSON: ClassVar[str] = "schema unit=UNIT id=name line=place.line *place why|null_if_empty by_rank colors places"
    UNIT: ClassVar[str] = "us"
    name: str
    place: Place
    why: str = ""
    by_rank: dict[int, float] = {}
    colors: tuple[Color, ...] = ()
    hidden: object = None
    cwd: str = "/home/me"

    @property
    def places(self) -> tuple[Place, ...]:
        """All of them."""
        return (self.place,)


class Whole(Struct, frozen=True):
    first: int
    found: Found | None = None


HERE = Found("x", Place("/home/me/net.py", 3), by_rank={1: 0.5}, colors=(Color.RED,))
PRINTED = {
    "schema": 1,
    "unit": "us",
    "id": "x",
    "line": 3,
    "file": "net.py",
    "why": None,
    "by_rank": {"1": 0.5},
    "colors": ["red"],
    "places": [{"file": "net.py", "line": 3}],
}


def test_words_name_what_is_printed() -> None:
    assert json.loads(render(HERE)) == PRINTED
    assert list(plain(HERE, HERE.cwd)) == list(PRINTED)


def test_a_struct_without_words_is_printed_whole() -> None:
    assert plain(Whole(1, HERE), "/home/me") == {"first": 1, "found": PRINTED}
    assert plain(Whole(1), "") == {"first": 1, "found": None}


class Line(Struct, frozen=True):
    JSON: ClassVar[str] = "line=place.line file=place.file|relative"
    place: Place | None = None


def test_what_is_reached_through_none_is_null() -> None:
    assert plain(Line(), "/home/me") == {"line": None, "file": None}


class Step(Struct, frozen=True):
    JSON: ClassVar[str] = "*place where=lines|lines ops|counts places=found|names"
    place: Place | None = None
    lines: tuple[str, ...] = ()
    """As `file:line`."""
    ops: tuple[tuple[str, int], ...] = ()
    """The most frequent first."""
    found: tuple[Found, ...] = ()
    """What was found."""


def test_a_struct_that_is_not_there_has_no_names() -> None:
    assert plain(Step(Place("/home/me/net.py", 3)), "/home/me") == {
        "file": "net.py",
        "line": 3,
        "where": [],
        "ops": {},
        "places": [],
    }
    assert list(plain(Step(), "")) == ["where", "ops", "places"]


def test_formats_of_several_values() -> None:
    step = Step(lines=("/home/me/net.py:3",), ops=(("mm", 2), ("add", 1)), found=(HERE,))
    where = [{"file": "net.py", "line": 3}]
    assert plain(step, "/home/me") == {"where": where, "ops": {"mm": 2, "add": 1}, "places": ["x"]}


class Open(Struct, frozen=True):
    JSON: ClassVar[str] = "name *more"
    name: str
    more: Mapping[str, Any] = {}


def test_names_of_a_mapping_are_added_to_those_that_are_declared_before() -> None:
    assert plain(Open("x", {"name": "y", "size": 2}), "") == {"name": "x", "size": 2}
    assert _schema(Open)["additionalProperties"] == {}


class Code(Struct, frozen=True):
    JSON: ClassVar[str] = "file text?has_code why?!has_code"
    file: Path
    """Where it is."""
    has_code: bool
    text: str = "x"
    why: str | None = None


def test_a_name_with_a_condition_is_left_out_unless_it_holds() -> None:
    assert plain(Code(Path("a/b.py"), has_code=True), "") == {"file": "a/b.py", "text": "x"}
    assert plain(Code(Path("a/b.py"), has_code=False), "") == {"file": "a/b.py", "why": None}
    found = _schema(Code)
    assert found["required"] == ["file"]
    assert list(found["properties"]) == ["file", "text", "why"]


class Wrong(Struct, frozen=True):
    JSON: ClassVar[str] = "line=place.lnie"
    place: Place


def test_a_word_that_names_nothing_is_an_error_and_found_when_schemas_are_written() -> None:
    with pytest.raises(AttributeError):
        plain(Wrong(Place(None)), "")
    with pytest.raises(AttributeError):
        shapes.Writers().printed(Wrong)


def _schema(kind: type, **named: str) -> Any:
    return schemas._schema(shapes.Writers(named=named).printed(kind))


def test_the_schema_follows_the_fields() -> None:
    found = _schema(Found)
    assert found["required"] == list(PRINTED)
    assert found["properties"]["schema"] == {"const": 1}
    assert found["properties"]["line"] == {"type": ["integer", "null"], "description": "From 1."}
    assert found["properties"]["why"] == {"type": ["string", "null"]}
    assert found["properties"]["by_rank"] == {"type": "object", "additionalProperties": {"type": ["number", "null"]}}
    assert found["properties"]["colors"] == {"type": "array", "items": {"enum": ["red"]}}
    assert found["properties"]["places"]["items"]["properties"]["file"] == {"type": ["string", "null"]}
    assert _schema(Line)["properties"]["line"]["type"] == ["null", "integer"]
    assert _schema(Whole, Found="found")["properties"]["found"]["anyOf"][1] == {"$ref": "#/$defs/found"}


def test_the_schema_of_what_may_not_be_there_and_of_formats() -> None:
    found = _schema(Step)
    assert list(found["properties"]) == ["file", "line", "where", "ops", "places"]
    assert found["required"] == ["where", "ops", "places"]
    assert found["properties"]["ops"]["description"] == "The most frequent first."
    where, places = found["properties"]["where"], found["properties"]["places"]
    assert list(where["items"]["properties"]) == ["file", "line"]
    assert places == {"type": "array", "items": {"type": "string"}}


class Steps(Struct, frozen=True):
    steps: tuple[Step, ...]
    last: Step | None


def test_types_have_definitions_too() -> None:
    named = {"Step": "step", "tuple[Step, ...]": "steps", "Step | None": "last"}
    writers = shapes.Writers(named=named)
    found = schemas._schema(writers.printed(Steps))["properties"]
    assert found == {"steps": {"$ref": "#/$defs/steps"}, "last": {"$ref": "#/$defs/last"}}
    assert schemas._schema(writers.definitions["steps"])["items"] == {"$ref": "#/$defs/step"}
    assert set(writers.docs.values()) == {""}


def test_what_is_published_stays_where_the_code_says_more() -> None:
    writers = shapes.Writers(
        named={"Code.text": "text"},
        undescribed=frozenset(("Code.file",)),
        published={"Code.why": bool | None},
    )
    found = schemas._schema(writers.printed(Code))["properties"]
    assert found == {"file": {"type": "string"}, "text": {"$ref": "#/$defs/text"}, "why": {"type": ["boolean", "null"]}}
    assert writers.definitions == {"text": shapes.Value(str)}


def _structs(kind: type[Struct]) -> Iterator[type[Struct]]:
    for each in kind.__subclasses__():
        yield each
        yield from _structs(each)


def test_every_exception_of_the_schemas_names_what_is_printed() -> None:
    schemas.texts()
    known = {f"{each.__name__}{name}" for each in _structs(Struct) for name in ("", *_names(each))}
    assert schemas.UNDESCRIBED | schemas.PUBLISHED.keys() <= known


def _names(kind: type[Struct]) -> list[str]:
    return [f".{each.name}" for each in json_fields(kind)]


def test_every_named_definition_is_used() -> None:
    used = set(schemas.COMMANDS)  # a Document that has the name of its command is the whole schema
    for command in schemas.COMMANDS:
        used |= set(schemas.schema_of(command).get("$defs", {}))
    assert set(schemas.NAMED.values()) <= used

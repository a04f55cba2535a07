"""Read typed values from JSON."""

from collections.abc import Callable
from typing import Any

import pytest

from ctrace.inspector.log.fields import Fields

Read = Callable[[Fields], Any]

REQUIRED: dict[str, tuple[Read, Any, Any]] = {
    "text": (lambda data: data.text("x"), "a", "a"),
    "integer": (lambda data: data.integer("x"), 3, 3),
    "texts": (lambda data: data.texts("x"), ["a", "b"], ("a", "b")),
    "objects": (lambda data: tuple(each.integer("y") for each in data.objects("x")), [{"y": 1}, {"y": 2}], (1, 2)),
}
"""JSON value and expected result of each method."""
OPTIONAL: dict[str, tuple[Read, Any, Any, Any]] = {
    "maybe_text": (lambda data: data.maybe_text("x"), "a", "a", None),
    "maybe_number": (lambda data: data.maybe_number("x"), 0.5, 0.5, None),
    "maybe_lists": (lambda data: data.maybe_lists("x"), {"a": [1]}, {"a": [1]}, {}),
}
"""The same, with the result for a missing field."""
READERS = {**REQUIRED, **OPTIONAL}
WRONG: dict[str, tuple[Any, ...]] = {
    "text": (1, 1.5, True, [], ["a"], {}),
    "integer": ("1", 1.0, True, [], {}),
    "number": ("1.5", True, [], {}),
    "texts": ("ab", 3, {"a": "b"}, ["a", 1], [None], [["a"]]),
    "objects": ("ab", 3, {}, [1], ["a"], [None], [[]]),
    "lists": ("ab", 3, [], [["a", "b"]], {"a": 1}, {"a": None}, {"a": {}}),
}
"""JSON values of wrong types."""


def same(value: Any, other: Any) -> bool:
    """Compare JSON values, with `True` and `1` as different as `0` and `0.0`."""
    return repr(value) == repr(other)


@pytest.mark.parametrize("name", READERS)
def test_a_value_of_the_type(name: str):
    read, value, made = READERS[name][:3]
    assert same(read(Fields({"x": value}, "it")), made)


@pytest.mark.parametrize("name", OPTIONAL)
def test_a_missing_field_that_may_be_missing(name: str):
    read, _, _, without = OPTIONAL[name]
    assert same(read(Fields({"y": 1}, "it")), without)


@pytest.mark.parametrize("name", REQUIRED)
def test_a_missing_field_that_has_to_be_there(name: str):
    with pytest.raises(KeyError, match="x"):
        REQUIRED[name][0](Fields({"y": 1}, "it"))


@pytest.mark.parametrize("name", ["maybe_text", "maybe_number"])
def test_null_is_nothing_where_nothing_may_be(name: str):
    assert OPTIONAL[name][0](Fields({"x": None}, "it")) is None


@pytest.mark.parametrize("name", [*REQUIRED, "maybe_lists"])
def test_null_is_no_value_elsewhere(name: str):
    with pytest.raises(TypeError, match="NoneType"):
        READERS[name][0](Fields({"x": None}, "it"))


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name in READERS for value in WRONG[name.removeprefix("maybe_")]]
)
def test_a_value_of_another_type(name: str, value: Any):
    with pytest.raises(TypeError):
        READERS[name][0](Fields({"x": value}, "it"))


def test_a_whole_number_is_a_number():
    number = Fields({"x": 2}, "it").maybe_number("x")
    assert (type(number), number) == (float, 2.0)


def test_a_number_that_no_float_holds():
    with pytest.raises(ValueError, match="out of range"):
        Fields({"x": 10**400}, "it").maybe_number("x")


@pytest.mark.parametrize("data", [None, 3, "x", [], [["x", 1]]])
def test_only_objects_have_fields(data: Any):
    with pytest.raises(TypeError, match=r"^the payload is a .*, not an object$"):
        Fields(data, "the payload")


def test_the_error_says_where():
    with pytest.raises(TypeError, match=r"^the payload: ops is a list$"):
        Fields({"ops": []}, "the payload").integer("ops")
    with pytest.raises(TypeError, match=r"^an item of stack: line is a str$"):
        Fields({"stack": [{"line": "8"}]}, "the payload").objects("stack")[0].integer("line")
    with pytest.raises(TypeError, match=r"^sizes\['ok'\] is a str$"):
        Fields({"sizes": {"ok": "1"}}, "the payload").maybe_lists("sizes")

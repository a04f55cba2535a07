import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctrace.reports import format as fmt
from ctrace.reports.escape import (
    graphviz_string,
    json_text,
    markup_text,
    one,
    plain,
    without_commands,
    xml_letters,
)
from tests.support.obeyed import obeyed
from tests.support.poison import COMMANDS, UNSEEN, WIDE

ANY = st.text(st.characters(codec=None), max_size=200)


@given(ANY)
def test_nothing_is_hidden(text: str) -> None:
    assert not [each for each in obeyed(plain(text)) if each.startswith("'") and each != r"'\t'"]
    assert one(text).isprintable() or not set(one(text)) - {" "} or "\n" not in one(text)


@given(st.dictionaries(ANY, st.lists(ANY, max_size=3), max_size=3))
def test_json_reads_back_the_same(data: dict[str, list[str]]) -> None:
    text = json_text(data)
    assert json.loads(text) == json.loads(json.dumps(data))
    assert obeyed(text) == []
    text.encode()


def test_json_keeps_what_can_be_read() -> None:
    assert "é漢🙂" in json_text("é漢🙂")


def test_nan_and_infinity_become_null() -> None:
    assert json.loads(json_text({"a": [float("nan"), float("inf"), 1.5]})) == {"a": [None, None, 1.5]}


@pytest.mark.parametrize(
    "text", ["::error::x", "  ::x", "a\n::x", "a ##[group]", "##vso[x]", "\u3000::x", "##teamcity[x]"]
)
def test_commands_are_escaped_and_stay_readable(text: str) -> None:
    broken = without_commands(text)
    assert obeyed(broken) == []
    assert broken.replace(r"\x3a", ":").replace(r"\x23", "#") == text


@pytest.mark.parametrize("text", ["a::b", "std::vector", "# comment", "## heading", "x[1]", "#1"])
def test_other_text_is_unchanged(text: str) -> None:
    assert without_commands(text) == text


@given(ANY)
def test_the_text_is_valid_xml(text: str) -> None:
    from xml.etree import ElementTree

    element = ElementTree.Element("a", name=xml_letters(text))
    element.text = xml_letters(text)
    ElementTree.fromstring(markup_text(ElementTree.tostring(element, encoding="unicode")))


def test_graphviz() -> None:
    assert graphviz_string('a"b\\&lt;\n\u202e') == '"a\\"b\\\\&amp;lt;\\n\\\\u202e"'


def test_columns_are_counted_not_characters() -> None:
    assert fmt.width(WIDE) == 4 * 2 + 1
    assert fmt.width(fmt.cut("漢" * 50, 21)) == 21
    assert fmt.cut("e\u0301" * 10, 10) == "e\u0301" * 10


def test_names_are_one_line_and_bounded() -> None:
    assert fmt.path(f"/p/{COMMANDS}{UNSEEN}", "/p").count("\n") == 0
    assert len(fmt.one("x" * 10_000_000)) == fmt.LONGEST
    assert fmt.one_line(" " * 10_000_000 + "x").endswith("…")


@pytest.mark.parametrize(
    "data",
    [
        {},
        [],
        {"a": {}, "b": [], "c": [[], {}], "d": 1e16, "e": "x: , [", "f": None, "g": -0.0, "h": 10**30, "é": 'a"\\"b'},
        "\ud800",
        [1, [2, [3]], {"half": "\udfff"}],
    ],
)
def test_json_is_indented_as_python_does(data: object):
    assert json.loads(json_text(data)) == data
    expected = json.dumps(data, indent=2, ensure_ascii=False).replace("\ud800", r"\ud800").replace("\udfff", r"\udfff")
    assert json_text(data) == f"{expected}\n"

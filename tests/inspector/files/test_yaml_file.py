"""Untrusted YAML: plain values with their lines, and nothing else."""

import time

import pytest

from ctrace.inspector.errors import PolicyError
from ctrace.inspector.files.yaml_file import YamlNode, parse_yaml
from tests.support.sampling import sampled


def value(text: str) -> object:
    return bare(parse_yaml(text.encode(), "f.yaml"))


def bare(node: YamlNode) -> object:
    if isinstance(node.value, dict):
        return {key: bare(child) for key, child in node.value.items()}
    return [bare(child) for child in node.value] if isinstance(node.value, tuple) else node.value


def refused(data: bytes | str) -> PolicyError:
    with pytest.raises(PolicyError, match=r"^f\.yaml, line \d+: [^\n]+$") as caught:
        parse_yaml(data.encode() if isinstance(data, str) else data, "f.yaml")
    return caught.value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", None), ("~", None), ("a", "a"), ("1", 1), ("-3", -3), ("99.5", 99.5), ("'1'", "1"), ("!!str 1", "1"),
        ("yes", True), ("Off", False), ("2027-01-31", "2027-01-31"), ("010", "010"), ("0x1F", "0x1F"), ("1_000", "1_000"),
        ("1:30", "1:30"), (".inf", ".inf"), ("1e3", "1e3"), ("=", "="), ("!!int abc", "abc"), ("9" * 30, "9" * 30),
        ("[a, {b: 1}]", ["a", {"b": 1}]), ('"\\u2028é"', "\u2028é"), ("a: &x 1\nb: *x", {"a": 1, "b": 1}),
    ],
)  # fmt: skip
def test_plain_values(text: str, expected: object):
    found = value(text)
    assert found == expected
    assert type(found) is type(expected)


def test_lines_and_names():
    root = parse_yaml(b"a: 1\nb:\n  - x\n  - y\nc:\n  d:\n    e: {f: 1}\n", "f.yaml")
    assert isinstance(root.value, dict)
    assert [(each.name, each.line) for each in root.value.values()] == [("a", 1), ("b", 2), ("c", 5)]
    listed = root.value["b"].value
    assert isinstance(listed, tuple)
    assert [(each.name, each.line) for each in listed] == [("b", 3), ("b", 4)]
    deep = root.value["c"]
    while isinstance(deep.value, dict):
        (deep,) = deep.value.values()
    assert (deep.name, deep.line) == ("c.d.e.f", 7)


@pytest.mark.parametrize(
    ("text", "line", "what", "todo"),
    [
        ("models:\n- *.py", 2, "expected alphabetic", "quote"),
        ("a: b: c", 1, "mapping values are not allowed", "quote"),
        ("a:\n\tb: 1", 2, "cannot start any token", "spaces, not with tabs"),
        ("a: `b", 1, "cannot start any token", "quote"),
        ("a: *x", 1, "undefined alias", "quote"),
        ("a: 1\n---\nb: 1", 2, "a second document", "one document"),
        ("a: 1\nb: 2\na: 3", 3, "a is defined twice, the first time in line 1", "take one"),
        ("x:\n  a: 1\n  'a': 3", 3, "a is defined twice", "take one"),
        ("1: a", 1, "the key 1 is not a text", "quotes"),
        ("a: 1\non: b", 2, "the key on is not a text", "quotes"),
        ("~: b", 1, "the key ~ is not a text", "quotes"),
        ("? \n: b", 1, "the key of no name is not a text", "quotes"),
        ("? [a]\n: b", 1, "cannot be a key", "quotes"),
        ("a: &a {b: 1}\nc:\n  <<: *a", 3, "the key <<", "write its keys out"),
        ("a: !!python/object/apply:os.system [x]", 1, "!!python/object/apply:os.system", "leave it out"),
        ("a: !!set {x}", 1, "!!set", "leave it out"),
        ("a: !!binary aGk=", 1, "!!binary", "leave it out"),
        ("a: !mine x", 1, "!mine", "leave it out"),
        ("a: 1\nb: \x07", 2, "character that YAML forbids", "remove it"),
        ('a: 1\nb: "\\UFFFFFFFF"', 2, "not YAML", "correct it"),
        ('a: 1\nb: "\\ud800"', 2, "half a character", "complete"),
        ("%YAML 9" + "9" * 5000 + ".1\n---\na", 1, "not YAML", "correct it"),
        ("a: [", 1, "expected the node content", "correct"),
        ('a: 1\nb: "x\nc: 1\n', 2, "unexpected end of stream", "correct"),
        ("a: 1\nb: [x\n", 2, "but got '<stream end>'", "correct"),
        ("&a [*a]", 1, "repeat too much", "without"),
        ("a: &a {b: *a}", 1, "repeat too much", "without"),
    ],
)
def test_what_is_refused(text: str, line: int, what: str, todo: str):
    error = refused(text)
    assert error.what.startswith(f"f.yaml, line {line}: ")
    assert what in error.what
    assert todo in error.todo


def test_bytes_that_are_no_text():
    assert refused(b"a: 1\nb: \xff").what == "f.yaml, line 2: it is not UTF-8 text"
    assert refused("a: 1".encode("utf-16")).what == "f.yaml, line 1: it is not UTF-8 text"


def test_a_huge_file():
    assert "larger than 256 KiB" in refused(b"#" * 300_000).what


BOMB = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{new}: &{new} [{','.join([f'*{old}'] * 10)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    "text",
    sampled([BOMB, "[" * 100_000, "{a: " * 50_000, "- " * 100_000, "? " * 100_000, "[[],"*50_000, "[" + "1," * 130_000 + "]", "- a\n" * 60_000]),
    ids=["bomb", "lists", "tables", "dashes", "keys", "unclosed", "wide", "long"],
)  # fmt: skip
def test_what_would_take_long(text: str):
    began = time.perf_counter()
    refused(text)
    assert time.perf_counter() - began < 20


@pytest.mark.parametrize(("deep", "ok"), [(20, True), (40, False)])
def test_depth(deep: int, ok: bool):
    text = "[" * deep + "]" * deep
    if ok:
        assert value(text) is not None
    else:
        assert "nested too deep" in refused(text).what

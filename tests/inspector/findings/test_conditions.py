"""Conditions on sizes, in the user's words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctrace.inspector.findings.shape_symbols import bounds_of, in_words, symbols_in
from tests.support.helpers import fuzzing

NAMES = {"s77": "x.size(0)", "s27": "x.size(1)", "s7": "y.size(0)"}


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("s77 > 3", "x.size(0) > 3"),
        ("Eq(Mod(s77, 2), 0)", "x.size(0) % 2 == 0"),
        ("Eq(s27*((s77//2)), ((s27*s77)//2))", "x.size(1) * (x.size(0) // 2) == x.size(1) * x.size(0) // 2"),
        ("Ne(PythonMod(s77 + 1, s7), 0)", "(x.size(0) + 1) % y.size(0) != 0"),
        ("Eq(FloorDiv(s77, 4), 2)", "x.size(0) // 4 == 2"),
        ("u0 <= 4*s77", "u0 <= 4 * x.size(0)"),
        ("Max(s77, s7) < 9", "Max(x.size(0), y.size(0)) < 9"),
        ("Eq(s77", "Eq(x.size(0)"),
        ("s770 > s7", "s770 > y.size(0)"),
        ("Eq(s77, 1, 2)", "Eq(x.size(0), 1, 2)"),
        ("", ""),
    ],
)
def test_words(expression: str, words: str) -> None:
    assert in_words(expression, NAMES) == words


@pytest.mark.parametrize(
    ("expression", "bounds"),
    [
        ("s77 > 3", ("s77", 4, None)),
        ("s77 >= 3", ("s77", 3, None)),
        ("s77 < 20", ("s77", None, 19)),
        ("s77 <= 20", ("s77", None, 20)),
        ("s77 <= -1", ("s77", None, -1)),
        ("s77 < s27", None),
        ("2*s77 > 3", None),
        ("Eq(s77, 3)", None),
    ],
)
def test_bounds(expression: str, bounds: tuple[str, int | None, int | None] | None) -> None:
    assert bounds_of(expression) == bounds


def test_symbols_are_given_once_each() -> None:
    assert symbols_in("Eq(s27*s77 + u0, 2*s77*zf3)") == ("s27", "s77", "u0", "zf3")
    assert symbols_in("Mod(sum2, 3)") == ()


@pytest.mark.parametrize("text", ["(" * 3000, "-" * 1999 + "1", "Eq(" * 600 + ")" * 600, "s77\0", "é" * 2500])
def test_text_that_cannot_be_read_keeps_its_form(text: str) -> None:
    assert in_words(text, {}) == text


@fuzzing
@given(st.text(max_size=60))
def test_no_text_breaks_it(text: str) -> None:
    assert isinstance(in_words(text, NAMES), str)
    symbols_in(text)
    bounds_of(text)

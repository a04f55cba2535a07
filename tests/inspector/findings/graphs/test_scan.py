"""Brackets, commas and names in expressions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctrace.inspector.findings.graphs.parse import closing, names_in, splits_at


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("(a, b)", 5),
        ("(a, [64, 64], dtype = x)", 23),
        ("(a, [(1, 2), [3]], b) + (c)", 20),
        ("(a, ')')", 7),
        ("(a, [1, 2)", -1),
        ("(a", -1),
        ("()", 1),
    ],
)
def test_the_closing_bracket(text: str, at: int):
    assert closing(text, 0) == at


@given(st.text(alphabet="a1, ()[]{}", max_size=40))
def test_deep_and_shallow_brackets_are_found_alike(text: str):
    """A level more of brackets around it makes an expression too deep for the fast case."""
    deep = f"([[]]{text}"
    assert closing(f"({text}", 0) == (found - 4 if (found := closing(deep, 0)) >= 0 else -1)


def test_names_are_listed_once_without_keywords_and_strings():
    assert names_in("add(x, y, x, alpha = 2, mode = 'y') + z.w", {"x", "y", "z", "w", "alpha"}) == ("x", "y", "z")


@pytest.mark.parametrize(("sign", "at"), [(" + ", 7), (" * ", -1), (" - ", -1)])
def test_a_sign_outside_of_brackets(sign: str, at: int):
    assert splits_at("(a * b) + c", sign) == at

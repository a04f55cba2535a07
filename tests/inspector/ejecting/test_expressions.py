"""Sizes as expressions of symbols."""

import pytest

from ctrace.inspector.ejecting.expressions import UnknownExpressionError, are_equal, renamed, symbols_of, value


def test_symbols_are_listed_once_in_order() -> None:
    assert symbols_of("s77*s1 + s77 // 2") == ("s77", "s1")
    assert symbols_of("128") == ()
    assert symbols_of("max(1, s0)") == ("s0",)


@pytest.mark.parametrize(
    "text", ["__import__('os')", "s0.real", "[1]", "s0 if s1 else 2", "1.5", "eval(s0)", "", "lambda: 0"]
)
def test_anything_but_integer_arithmetic_is_refused(text: str) -> None:
    with pytest.raises(UnknownExpressionError):
        symbols_of(text)


def test_expressions_that_are_written_differently_are_equal() -> None:
    assert are_equal("s55*s72 + s70*s72", "s72*(s55 + s70)")
    assert are_equal("s53**2", "s53*s53")
    assert not are_equal("s0 // 2", "s0 - s0 // 2")
    assert not are_equal("8", "s0")


def test_values_and_names() -> None:
    assert value("8*s77 - 1", {"s77": 40}) == 319
    assert value("s1", {"s77": 40}) is None
    assert renamed("8*s77", {"s77": "n"}) == "8 * n"
    assert renamed("Max(1, s0) // 2", {"s0": "n + m"}) == "max(1, n + m) // 2"

"""Sizes as expressions of symbols."""

import pytest

from ctrace.inspector.features.workshop.size_expressions import (
    UnknownExpressionError,
    are_equal,
    renamed,
    symbols_of,
    value,
)


def test_symbols_are_listed_once_in_order() -> None:
    assert symbols_of("s77*s1 + s77 // 2") == ("s77", "s1")
    assert symbols_of("128") == ()
    assert symbols_of("max(1, s0)") == ("s0",)


@pytest.mark.parametrize(
    "text", ["__import__('os')", "s0.real", "[1]", "s0 if s1 else 2", "1.5j", "True", "eval(s0)", "", "lambda: 0"]
)
def test_anything_but_arithmetic_is_refused(text: str) -> None:
    with pytest.raises(UnknownExpressionError):
        symbols_of(text)


def test_expressions_that_are_written_differently_are_equal() -> None:
    assert are_equal("s55*s72 + s70*s72", "s72*(s55 + s70)")
    assert are_equal("s53**2", "s53*s53")
    assert not are_equal("s0 // 2", "s0 - s0 // 2")
    assert not are_equal("8", "s0")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Max(1, s0)", "s0"),
        ("Max(2, s0)", "s0"),
        ("s0*Max(1, s1)", "s0*s1"),
        ("s0 // s0", "1"),
        ("s0*s1 // Max(1, s0)", "s1"),
        ("s0*s1", "s0*Max(2, s1)"),
    ],
)
def test_expressions_that_differ_only_at_0_or_1_are_not_equal(one: str, other: str) -> None:
    assert not are_equal(one, other)


@pytest.mark.parametrize(
    ("sympy", "python"),
    [
        ("1 + FloorDiv(-1 + FloorDiv(s0, 2), 2)", "((s0//2) - 1)//2 + 1"),
        ("FloatTrueDiv(IntTrueDiv(8*s0**2, 8), (IntTrueDiv(8*s0**2, 8)) - 1.0)", "s0*s0 / (s0*s0 - 1)"),
        ("ModularIndexing(s0, 3, 5)", "s0 // 3 % 5"),
        ("PythonMod(s0, 7) + Mod(s0, 3)", "s0 % 7 + s0 % 3"),
        ("CeilDiv(s0, 4)", "(s0 + 3) // 4"),
        ("Max(1, FloorDiv(s0, s1), 3)", "max(1, s0 // s1, 3)"),
        ("Identity(PowByNatural(s0, 2))*ToFloat(2)", "2.0 * s0**2"),
        ("FloorDiv(8, 3)", "2"),
    ],
)
def test_functions_of_sympy_as_graphs_have_them(sympy: str, python: str) -> None:
    assert are_equal(sympy, python)
    assert are_equal(renamed(sympy, {}), python)
    assert not {"FloorDiv", "Mod", "Max"} & set(renamed(sympy, {"s0": "n"}).replace("(", " ").split())


@pytest.mark.parametrize(
    "text", ["FloorDiv(s0)", "FloorDiv(s0, 2, 3)", "FloorDiv(s0, eval(s1))", "FloorDiv(*s0)", "CeilDiv(s0, b=4)"]
)
def test_functions_with_other_arguments_are_refused(text: str) -> None:
    with pytest.raises(UnknownExpressionError):
        symbols_of(text)


def test_a_replaced_symbol_keeps_its_place_in_the_arithmetic() -> None:
    assert renamed("FloorDiv(s0, 2) * s1", {"s0": "n + m", "s1": "k"}) == "(n + m) // 2 * k"
    assert renamed("FloorDiv(s0, s1)", {"s0": "b", "s1": "a"}) == "b // a"


def test_division_by_zero_has_no_value() -> None:
    assert value("s0 // (s1 - 3)", {"s0": 1, "s1": 3}) is None
    assert value("((10**8)**8)**8 / 3", {}) is None


def test_values_and_names() -> None:
    assert value("8*s77 - 1", {"s77": 40}) == 319
    assert value("s1", {"s77": 40}) is None
    assert renamed("8*s77", {"s77": "n"}) == "8 * n"
    assert renamed("Max(1, s0) // 2", {"s0": "n + m"}) == "max(1, n + m) // 2"

"""What Python raises for the number of a tensor and compiled code does not, by reading."""

import pytest

from ctrace.inspector.source.number_errors import NumberErrors, attribute_errors, number_errors

DIVIDES, TAKES_ROOTS = NumberErrors(divides=True), NumberErrors(takes_roots=True)
DIVIDES_WHOLE = NumberErrors(divides_whole=True)

MODULE = """\
import math
TOP = 7.0

class Net:
    def __init__(self):
        self.total = 1.0

    def forward(self, x):
        n = {read}
        {line}

    def count(self, x):
        return x.sum().item()

    def mean(self, x):
        return 1.0 / self.count(x)
"""


def read_of(line: str, read: str = "x.sum().item()") -> NumberErrors:
    text = MODULE.format(line=line, read=read)
    return number_errors(text.partition("    def count")[0], 9)


@pytest.mark.parametrize(
    "line",
    [
        "return x * (1.0 / n)",
        "return x * (TOP / n)",
        "return x * (self.total / n)",
        "self.n = n\n        return x * (1 / self.n)",
        "return x * (1.0 / (n + 1e-6))",
    ],
)
def test_divisions_that_raise_for_zero(line: str):
    assert read_of(line) == DIVIDES


@pytest.mark.parametrize("line", ["return x * (len(x) // (n - 3))", "m = abs(n)\n        return x * (5 % m)"])
def test_whole_divisions_that_raise_for_zero(line: str):
    assert read_of(line) == DIVIDES_WHOLE


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("return x * (1.0 / self.left)", DIVIDES),
        ("return x * (7 % self.left)", DIVIDES_WHOLE),
        ("left = self.left - 1\n        return x * (7 // left)", DIVIDES_WHOLE),
        ("return x * (self.left / 7)", NumberErrors()),
        ("return x / self.left", NumberErrors()),
        ("return x * (1.0 / max(self.left, 1))", NumberErrors()),
    ],
)
def test_a_number_that_an_attribute_holds(line: str, expected: NumberErrors):
    assert attribute_errors(MODULE.format(line=line, read="0"), "left") == expected
    assert attribute_errors("def", "left") == NumberErrors()


@pytest.mark.parametrize(
    "line",
    ["return x / n", "return (x * n) / 2", "return x * (1.0 / max(n, 1))", "return x * (n / 2.0)", "return x * n"],
)
def test_divisions_that_do_not(line: str):
    assert read_of(line) == NumberErrors()


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        ("x.abs().max().item()", NumberErrors()),
        ("float(torch.mean(x.square() + 2.0 * x.norm(), 0))", NumberErrors()),
        ("max(x.norm().item(), 1.0)", NumberErrors()),
        ("(x.abs() - x.norm()).min().item()", TAKES_ROOTS),
        ("x.min().item() + x.norm().item()", TAKES_ROOTS),
        ("float(torch.mean(x - x.abs(), 0))", TAKES_ROOTS),
        ("float(x.norm() - 1.0)", TAKES_ROOTS),
    ],
)
def test_a_difference_of_what_is_never_negative_may_be_negative(read: str, expected: NumberErrors):
    assert read_of("return x * math.sqrt(n)", read) == expected


def test_what_is_never_negative_and_more_than_that_is_not_zero():
    assert read_of("return x * (1.0 / (n + 1e-6))", "x.norm().item()") == NumberErrors()
    assert read_of("return x * (1.0 / n)", "x.norm().item()") == DIVIDES


@pytest.mark.parametrize("line", ["return x * math.sqrt(n)", "return x * n ** 0.5"])
def test_roots_of_what_may_be_negative(line: str):
    assert read_of(line) == TAKES_ROOTS
    assert read_of(line, "x.var().item()") == NumberErrors()


@pytest.mark.parametrize(
    ("line", "read", "expected"),
    [
        ("return x * max(1.0, n)", "x.norm().item()", True),
        ("return x * min(1.0, self.most / (n + 1e-6))", "x.norm().item()", True),
        ("m = n * 2\n        return x * min(1.0, 2.0, m)", "x.norm().item()", True),
        ("return x * max(1.0, n)", "x[x > 0].max().item()", True),
        ("return x * max(1.0, n)", "torch.where(x > 0, x, 0).sum().item()", True),
        ("return x * max(1.0, n)", "x.sum().item() * x.size(0)", True),
        ("return x * max(1.0, n)", "(x > 0).float().mean().item()", True),
        ("return x * max(n, 1.0)", "x.norm().item()", False),
        ("return x * max(1.0, x.shape[0])", "x.norm().item()", False),
        ("return x * torch.max(x, n)", "x.norm().item()", False),
        ("return x / max(1, n)", "(x > 0).sum().item()", False),
        ("return x / max(1, n)", "int(x.sum())", False),
        ("return x / max(1, n)", "torch.count_nonzero(x).item()", False),
    ],
)
def test_min_and_max_that_return_the_other_number_for_nan(line: str, read: str, expected: bool):
    assert read_of(line, read) == NumberErrors(passes_over_nan=expected)


@pytest.mark.parametrize(
    ("line", "read", "expected"),
    [
        ("return x * n", "int(x.max().item() * 8)", True),
        ("return x * int(n * 8)", "x.max().item()", True),
        ("return x * math.floor(n)", "x.max().item()", True),
        ("return x * int(n)", "x.mean().item()", True),
        ("return x * int(n)", "x.max().item()", False),
        ("return x * int(n / 2)", "(x > 0).sum().item()", False),
        ("return x * n", "int(x.max())", False),
        ("return x * int(x.shape[0] / 2)", "x.max().item()", False),
    ],
)
def test_numbers_that_become_integers(line: str, read: str, expected: bool):
    assert read_of(line, read) == NumberErrors(rounds=expected)


@pytest.mark.parametrize(
    ("line", "read", "expected"),
    [
        ("return x * math.log(n)", "x.max().item()", True),
        ("return x * math.log(max(n, 1))", "x.max().item()", False),
        ("return x * math.log(n + 1)", "(x > 0).count_nonzero().item()", False),
        ("return x * math.exp(-n)", "x.max().item()", True),
        ("return x * n ** -1", "x.max().item()", True),
        ("return x * math.tanh(n)", "x.max().item()", False),
        ("return x * math.log(x.shape[0])", "x.max().item()", False),
    ],
)
def test_functions_that_raise_for_some_numbers(line: str, read: str, expected: bool):
    assert read_of(line, read) == NumberErrors(leaves_range=expected)


def test_what_a_mask_counts_is_never_nan():
    text = MODULE.format(line="return x / max(1, n)", read="valid = x > 0; n = valid.sum().item()")
    assert number_errors(text.partition("    def count")[0], 9) == NumberErrors()


def test_a_number_that_a_method_returns_is_followed():
    assert number_errors(MODULE.format(read="0", line="return n"), 13) == DIVIDES


def test_a_file_that_is_no_python_says_nothing():
    assert number_errors("def", 1) == NumberErrors()

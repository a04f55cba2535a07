"""The tests that a package of an ejected kernel has: they pass a right kernel, and no wrong one."""

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from ctrace.reports.dump.package_files import CHECKS, PackageTensor
from ctrace.reports.dump.templates import rendered

pytest.importorskip("torch")

SOFTMAX = """\
import torch

def definition(x):
    return {definition}

def soft(x):
    return {kernel}

def run_definition(x):
    return definition(x)

def covers(x):
    return True

KERNEL = soft
"""
RIGHT = "(x - x.amax(-1, True)).exp() / (x - x.amax(-1, True)).exp().sum(-1, True)"


@pytest.fixture
def testing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., ModuleType]]:
    """Return what makes the tests of a softmax, given what its kernel computes."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def made(kernel: str, definition: str = RIGHT) -> ModuleType:
        cases = {
            "inputs": [PackageTensor("x", "float32", ("9", "40"), ("40", "1"))],
            "rows": [{}],
            "symbols": [],
            "passed": [],
            "below": {},
            "has_small": True,
            "has_maximum": True,
        }
        tests = {"is_interpretable": False, "keeps_float64": True, "device": "cpu"}
        package = tmp_path / "softened"
        package.mkdir()
        for name in ("__init__", "place", "kernel"):
            (package / f"{name}.py").touch()
        (package / "op.py").write_text(SOFTMAX.format(definition=definition, kernel=kernel))
        (package / "checks.py").write_text(CHECKS.read_text())
        (package / "cases.py").write_text(rendered("package_cases", name="soft", **cases))
        (package / "test_soft.py").write_text(rendered("package_test", name="soft", **tests))
        return importlib.import_module("softened.test_soft")

    yield made
    for name in [each for each in sys.modules if each.split(".")[0] == "softened"]:
        del sys.modules[name]


def compared(tests: ModuleType) -> list[str]:
    """Return the cases on the CPU for which the kernel passes the test; with a GPU, there are others."""
    passed = []
    for case in tests.CASES:
        if case[0] != "cpu":
            continue
        try:
            tests.test_op_equals_its_definition(*case)
        except (AssertionError, pytest.skip.Exception):
            continue
        passed.append(case[1])
    return passed


EVERY = ["random inputs 1", "NaN in x", "infinity in x", "zeros in x", "non-contiguous inputs", "random inputs 2",
         "random inputs 3", "small values", "large values", "float64", "bfloat16", "float16"]  # fmt: skip


def test_a_right_kernel_passes(testing: Callable[..., ModuleType]) -> None:
    tests = testing(RIGHT)
    assert [case[1] for case in tests.CASES if case[0] == "cpu"] == EVERY
    assert compared(tests)[: len(EVERY)] == EVERY


@pytest.mark.parametrize(
    "kernel",
    ["x.exp() / x.exp().sum(-1, True)", RIGHT.replace("x.amax(-1, True)", "x.roll(-9).amax(-1, True)")],
    ids=["no_maximum", "maximum_of_other_values"],
)
def test_a_wrong_maximum_shows_in_large_values(testing: Callable[..., ModuleType], kernel: str) -> None:
    """A softmax cancels it: with values around 1, the result is the same."""
    tests = testing(kernel)
    assert {"random inputs 1", "small values"} <= set(compared(tests))
    (large,) = [case for case in tests.CASES if case[:2] == ("cpu", "large values")]
    with pytest.raises(AssertionError, match="NaN in other elements"):
        tests.test_op_equals_its_definition(*large)


def test_infinity_where_the_definition_has_nan_is_no_difference(testing: Callable[..., ModuleType]) -> None:
    """A mean that Welford's algorithm computes is infinite where one by a sum is NaN."""
    tests = testing(
        "torch.where(x.isinf().any(-1, True), -torch.inf, x)", "torch.where(x.isinf().any(-1, True), torch.nan, x)"
    )
    assert "infinity in x" in compared(tests)


@pytest.mark.parametrize(
    "kernel",
    ["torch.where(x.isinf(), torch.nan, x)", "torch.where(x.isnan(), 0.0, x)", "x.nan_to_num(posinf=-torch.inf)"],
)
def test_nan_for_infinity_or_numbers_for_nan_are_differences(testing: Callable[..., ModuleType], kernel: str) -> None:
    tests = testing(kernel, "x.clone()")
    assert not {"infinity in x", "NaN in x"} <= set(compared(tests))


def test_a_wrong_stride_shows_in_inputs_that_are_not_contiguous(testing: Callable[..., ModuleType]) -> None:
    tests = testing("x.as_strided((9, 40), (40, 1)).softmax(-1)")
    assert "random inputs 1" in compared(tests)
    assert "non-contiguous inputs" not in compared(tests)


def test_large_values_that_the_definition_rounds_are_no_test(testing: Callable[..., ModuleType]) -> None:
    tests = testing(RIGHT, definition="(x.amax(-1, True) + 1e7 - 1e7).exp()")
    (large,) = [case for case in tests.CASES if case[:2] == ("cpu", "large values")]
    with pytest.raises(pytest.skip.Exception, match="rounding would decide"):
        tests.test_op_equals_its_definition(*large)

"""Results of a compiled call held against those in eager."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from ctrace.inspector.capture.calling import Results  # noqa: E402
from ctrace.inspector.capture.results import difference, taken  # noqa: E402


@dataclass
class Output:
    logits: Any
    label: str = "a"


def differ(one: Any, other: Any, *, built: bool = False) -> str | None:
    return difference(Results(one, [], []), Results(other, [], []), built=built)


NAN = float("nan")


@pytest.mark.parametrize(
    "value",
    [
        torch.ones(3), torch.tensor([NAN, 1.0]), torch.zeros(0), 1, NAN, "a", None, (1, [2, {"a": 3}]), torch.ones(2) > 0,
        Output(torch.ones(2)), SimpleNamespace(a=torch.ones(2)), torch.ones(2, dtype=torch.bfloat16), print,
    ],
)  # fmt: skip
def test_equal(value: Any):
    assert differ(value, taken(value)) is None


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        (torch.ones(3), torch.tensor([1.0, 2.0, 1.0]), "the result differs in 1 of 3 values, by up to 1"),
        (torch.ones(3), torch.ones(4), "the result is float32[3] in eager, float32[4] compiled"),
        (torch.ones(2), torch.ones(2).double(), "the result is float32[2] in eager, float64[2] compiled"),
        (torch.tensor([1, 2]), torch.tensor([1, 3]), "the result differs in 1 of 2 values"),
        (torch.tensor([NAN, 1.0]), torch.tensor([1.0, 1.0]), "the result differs in 1 of 2 values, by up to 0"),
        ({"a": (1, 2)}, {"a": (1, 3)}, "the result['a'][1] is 2 in eager, 3 compiled"),
        ({"a": 1}, {"b": 1}, "the result has other keys in eager than compiled"),
        ([1], [1, 2], "the result has 1 items in eager, 2 compiled"),
        (1, 1.0, "the result is a int in eager, a float compiled"),
        (True, False, "the result is True in eager, False compiled"),
        (Output(torch.ones(1)), Output(torch.zeros(1)), "the result['logits'] differs in 1 of 1 values, by up to 1"),
    ],
)
def test_different(one: Any, other: Any, told: str):
    assert differ(one, other) == told


def test_built_kernels_may_round_otherwise():
    one, other = torch.ones(3), torch.ones(3) * (1 + 5e-5)
    assert differ(one, other)
    assert differ(one, other, built=True) is None


def test_inputs_and_gradients_are_results_too():
    same = Results(1, [torch.ones(2)], [torch.ones(2), None])
    changed = Results(1, [torch.zeros(2)], [torch.ones(2), None])
    assert difference(same, changed, built=False) == "inputs[0] differs in 2 of 2 values, by up to 1"
    other = Results(1, [torch.ones(2)], [torch.zeros(2), None])
    assert difference(same, other, built=False) == "gradients[0] differs in 2 of 2 values, by up to 1"


def test_a_gradient_of_nothing_but_rounding_is_measured_by_the_others():
    one = Results(1, [], [torch.ones(2), torch.full((2,), 1e-9)])
    other = Results(1, [], [torch.ones(2), torch.full((2,), -1e-9)])
    assert difference(one, other, built=False) is None

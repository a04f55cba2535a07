"""Results of a compiled call compared with those in eager."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

torch = pytest.importorskip("torch")

from ctrace.inspector.capture.calls.calling import Results  # noqa: E402
from ctrace.inspector.capture.comparing.precision import BFLOAT16, FLOAT16, FLOAT32, Precision  # noqa: E402
from ctrace.inspector.capture.comparing.results import (  # noqa: E402
    ABSENT,
    Leaf,
    agree,
    difference,
    found,
    leaves,
    taken,
    within_tolerances,
)


@dataclass
class Output:
    logits: Any
    label: str = "a"


def differ(one: Any, other: Any) -> str | None:
    return difference(Results(one, [], []), Results(other, [], []))


NAN = float("nan")


@pytest.mark.parametrize(
    "value",
    [
        torch.ones(3), torch.tensor([NAN, 1.0]), torch.zeros(0), 1, NAN, "a", None, (1, [2, {"a": 3}]), torch.ones(2) > 0,
        Output(torch.ones(2)), SimpleNamespace(a=torch.ones(2)), torch.ones(2, dtype=torch.bfloat16), print,
    ],
)  # fmt: skip
def test_equal(value: Any):
    assert differ(value, taken(Results(value, [], [])).outputs) is None


@pytest.mark.parametrize(
    ("one", "other", "seen"),
    [
        (torch.ones(3), torch.tensor([1.0, 2.0, 1.0]), "the result differs in 1 of 3 values, by up to 1"),
        (torch.ones(3), torch.ones(4), "the result is float32[3] in eager, float32[4] compiled"),
        (torch.ones(2), torch.ones(2).double(), "the result is float32[2] in eager, float64[2] compiled"),
        (torch.tensor([1, 2]), torch.tensor([1, 3]), "the result differs in 1 of 2 values"),
        (torch.tensor([NAN, 1.0]), torch.tensor([1.0, 1.0]), "the result differs in 1 of 2 values, by up to 0"),
        ({"a": (1, 2)}, {"a": (1, 3)}, "the result['a'][1] is 2 in eager, 3 compiled"),
        ({"a": 1}, {"b": 1}, "the result has different keys in eager and compiled"),
        ([1], [1, 2], "the result has 1 items in eager, 2 compiled"),
        (1, 1.0, "the result is a int in eager, a float compiled"),
        (True, False, "the result is True in eager, False compiled"),
        (Output(torch.ones(1)), Output(torch.zeros(1)), "the result['logits'] differs in 1 of 1 values, by up to 1"),
    ],
)
def test_different(one: Any, other: Any, seen: str):
    assert differ(one, other) == seen


@pytest.mark.parametrize(
    ("dtype", "same", "other"),
    [
        (torch.float32, 5e-7, 5e-5),
        (torch.float16, 4e-4, 5e-3),
        (torch.bfloat16, 3e-3, 5e-2),
        (torch.float64, 5e-11, 1e-8),
    ],
)
def test_results_agree_within_what_the_dtype_rounds(dtype: Any, same: float, other: float):
    one = torch.ones(1000, dtype=torch.float64)
    assert agree(one.to(dtype), (one + same).to(dtype))
    assert not agree(one.to(dtype), (one + other).to(dtype))


def test_a_small_bias_of_all_values_is_a_difference():
    one = torch.randn(1000).exp()
    assert not agree(one.bfloat16(), (one * 1.01).bfloat16())


def test_inputs_buffers_and_gradients_are_results_too():
    same = Results(1, [torch.ones(2)], [torch.ones(2), None], {"mean": torch.ones(2)})
    changed = replace(same, inputs=[torch.zeros(2)])
    assert difference(same, changed) == "inputs[0] differs in 2 of 2 values, by up to 1"
    changed = replace(same, gradients=[torch.zeros(2), None])
    assert difference(same, changed) == "gradients[0] differs in 2 of 2 values, by up to 1"
    changed = replace(same, buffers={"mean": torch.zeros(2)})
    assert difference(same, changed) == "buffers['mean'] differs in 2 of 2 values, by up to 1"
    assert difference(same, taken(same)) is None


def test_a_tensor_that_is_not_dense():
    one = torch.eye(3).to_sparse()
    assert differ(one, one.clone()) is None
    assert differ(one, one * 2) == "the result differs in 3 of 9 values, by up to 1"


def test_every_place_of_results_is_found_again():
    results = Results({"a": (torch.ones(1), [Output(torch.zeros(2))])}, [torch.ones(3)], [None])
    for leaf in leaves(results, results):
        assert found(results, leaf.path) is leaf.eager
    assert found(results, ("outputs", "a", 1, 5)) is ABSENT
    assert found(results, ("outputs", "b")) is ABSENT


def test_a_gradient_of_nothing_but_rounding_is_measured_by_the_others():
    leaf = Leaf("gradients[1]", ("gradients", 1), torch.full((2,), 1e-6), torch.full((2,), -1e-6))
    assert within_tolerances(leaf, FLOAT32, built=True, scale=1.0)
    assert not within_tolerances(leaf, FLOAT32, built=True, scale=1e-3)


@pytest.mark.parametrize(
    ("coarsest", "by", "built", "expected"),
    [
        (FLOAT32, 5e-5, True, True),
        (FLOAT32, 5e-5, False, False),
        (FLOAT32, 1e-3, True, False),
        (FLOAT16, 5e-3, True, True),  # autocast: float32 results of float16 arithmetic
        (BFLOAT16, 3e-2, True, True),
        (BFLOAT16, 0.2, True, False),
    ],
)
def test_tolerances_are_those_of_the_coarsest_dtype(coarsest: Precision, by: float, expected: bool, built: bool):
    leaf = Leaf("the result", ("outputs",), torch.ones(9), torch.ones(9) + by)
    assert within_tolerances(leaf, coarsest, built=built) is expected


@pytest.mark.parametrize("place", [0, 4, 5, 9])
@pytest.mark.parametrize(("wrong", "expected"), [(1.0000001, True), (1.1, False), (NAN, False), (float("inf"), False)])
def test_tensors_compared_in_slices_agree_as_whole_ones(place: int, wrong: float, expected: bool, monkeypatch: Any):
    one = torch.ones(10, dtype=torch.float32)
    other = one.clone()
    other[place] = wrong
    whole = agree(one, other)
    monkeypatch.setattr("ctrace.inspector.capture.comparing.results._SLICE", 3)
    assert agree(one, other) == whole == expected

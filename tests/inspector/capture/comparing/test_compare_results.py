"""Results of a compiled call compared with those in eager."""

import functools
from collections import deque
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

torch = pytest.importorskip("torch")
np = pytest.importorskip("numpy")

from ctrace.inspector.capture.calls.calling import CallResults  # noqa: E402
from ctrace.inspector.capture.comparing.compare_results import (  # noqa: E402
    ABSENT,
    Leaf,
    agree,
    difference,
    is_compared,
    leaves,
    value_at,
    within_tolerances,
)
from ctrace.inspector.capture.comparing.precision import BFLOAT16, FLOAT16, FLOAT32, Precision  # noqa: E402
from ctrace.inspector.capture.comparing.snapshots import taken  # noqa: E402


@dataclass
class Output:
    logits: Any
    label: str = "a"


def differ(one: Any, other: Any) -> str | None:
    return difference(CallResults(one, [], []), CallResults(other, [], []))


NAN = float("nan")


@pytest.mark.parametrize(
    "value",
    [
        torch.ones(3), torch.tensor([NAN, 1.0]), torch.zeros(0), 1, NAN, "a", None, (1, [2, {"a": 3}]), torch.ones(2) > 0,
        Output(torch.ones(2)), SimpleNamespace(a=torch.ones(2)), torch.ones(2, dtype=torch.bfloat16), print,
    ],
)  # fmt: skip
def test_equal(value: Any):
    assert differ(value, taken(CallResults(value, [], [])).outputs) is None


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
        (1, 1.5, "the result is a int in eager, a float compiled"),
        (1, "1", "the result is a int in eager, a str compiled"),
        (float("inf"), 1.0, "the result is inf in eager, 1.0 compiled"),
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
    same = CallResults(1, [torch.ones(2)], [torch.ones(2), None], {"mean": torch.ones(2)})
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
    results = CallResults({"a": (torch.ones(1), [Output(torch.zeros(2))])}, [torch.ones(3)], [None])
    for leaf in leaves(results, results):
        assert agree(value_at(results, leaf.path), leaf.eager)
        assert agree(value_at(taken(results), leaf.path), leaf.eager)
    assert value_at(results, ("outputs", "a", 1, 5)) is ABSENT
    assert value_at(results, ("outputs", "b")) is ABSENT
    assert value_at(results, ("inputs", 1)) is ABSENT


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
    monkeypatch.setattr("ctrace.inspector.capture.comparing.compare_results._SLICE", 3)
    assert agree(one, other) == whole == expected


class Subclass(torch.Tensor):  # type: ignore[name-defined,misc]
    pass


class Strange(torch.Tensor):  # type: ignore[name-defined,misc]
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise ImportError("no backend")


class Remembering:
    def __init__(self, y: Any) -> None:
        self.y = y

    @functools.cached_property
    def half(self) -> Any:
        return self.y / 2


def computed() -> Remembering:
    made = Remembering(torch.ones(2))
    assert made.half is made.half
    return made


def endless() -> Any:
    cyclic: list[Any] = [torch.ones(2)]
    cyclic.append(cyclic)
    return cyclic


WEIGHT, OTHER = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (torch.nn.Parameter(torch.ones(2)), torch.ones(2)),
        (2, 2.0),
        (True, 1),
        (np.float64(1.5), np.array(1.5)),
        (np.int64(3), 3),
        (np.ones(3), np.ones(3)),
        (np.array(["a"]), np.array(["b"])),
        ({WEIGHT: 1}, {OTHER: 1}),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ((each for each in [1]), iter([2])),
        (map(abs, [1]), iter((1,))),
        (computed(), Remembering(torch.ones(2))),
        (endless(), endless()),
        (torch.ones(2).as_subclass(Subclass), torch.ones(2).as_subclass(Subclass)),
        (torch.ones(2).as_subclass(Strange), torch.ones(2).as_subclass(Strange)),
        (torch.ones(2).to(torch.float8_e4m3fn), torch.ones(2).to(torch.float8_e4m3fn)),
        (torch.tensor([1, 2], dtype=torch.uint16), torch.tensor([1, 2], dtype=torch.uint16)),
        (torch.tensor([-0.0]), torch.tensor([0.0])),
        (-0.0, 0.0),
        (complex("nan"), complex("nan")),
        ({1, 2}, {2, 1}),
        ({"a": 1}.items(), {"a": 1}.items()),
        (deque([1]), deque([1])),
        (b"a", bytearray(b"a")),
    ],
)
def test_what_is_the_same_in_another_form(one: Any, other: Any):
    assert differ(one, other) is None
    assert differ(taken(CallResults(one, [], [])).outputs, other) is None


@pytest.mark.parametrize(
    ("one", "other", "seen"),
    [
        (torch.ones(2).as_subclass(Subclass), torch.ones(2), "the result is a Subclass in eager, a Tensor compiled"),
        (torch.ones(2).as_subclass(Subclass), torch.zeros(2).as_subclass(Subclass), "the result differs in 2 of 2 values, by up to 1"),
        (torch.ones(2).to(torch.float8_e4m3fn), torch.zeros(2).to(torch.float8_e4m3fn), "the result differs in 2 of 2 values"),
        (torch.tensor([1, 2], dtype=torch.uint16), torch.tensor([1, 3], dtype=torch.uint16), "the result differs in 1 of 2 values"),
        (np.ones(2), np.zeros(2), "the result differs in 2 of 2 values, by up to 1"),
        ({1, 2}, {1, 3}, "the result is frozenset({1, 2}) in eager, frozenset({1, 3}) compiled"),
        ({WEIGHT: 1}, {OTHER: 2}, "the result['Parameter 0'] is 1 in eager, 2 compiled"),
        (iter([1]), [1], "the result is a iterator in eager, a list compiled"),
        ([1], (1,), "the result is a list in eager, a tuple compiled"),
    ],
)  # fmt: skip
def test_what_differs_in_another_form(one: Any, other: Any, seen: str):
    assert differ(one, other) == seen


def test_a_later_call_cannot_change_what_was_taken():
    output = SimpleNamespace(y=torch.ones(2), sizes=[1])
    before = taken(CallResults(output, [], []))
    output.y.add_(1)
    output.sizes.append(2)
    output.new = 1
    assert differ(before.outputs, SimpleNamespace(y=torch.ones(2), sizes=[1])) is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [(iter([1]), False), (lambda: 1, False), ([iter([1]), print], False), ([iter([1]), 1], True), (None, True)],
)
def test_a_result_without_values_is_not_compared(value: Any, expected: bool):
    assert is_compared(CallResults(value, [torch.ones(2)], [])) is expected

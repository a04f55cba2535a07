"""The properties that a graph's guards require of a tensor."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctrace.inspector.facts.guard_facts import Guard
from ctrace.inspector.findings.guard_view import Numbers, TensorGuard, meaning, tensor_guards
from tests.support.helpers import fuzzing

KEYS = "CPU, BackendSelect, ADInplaceOrView, AutogradCPU"


def code(source: str = "L['x']", **other: str) -> str:
    checked = {"type": "Tensor", "keys": KEYS, "dtype": "float32", "device": "None", "grad": "False", "size": "2, 3", "stride": "3, 1", **other}  # fmt: skip
    return (
        f"check_tensor({source}, {{type}}, DispatchKeySet({{keys}}), torch.{{dtype}}, device={{device}}, "
        "requires_grad={grad}, size=[{size}], stride=[{stride}])"
    ).format(**checked)


def only(source: str = "L['x']", **other: str) -> TensorGuard:
    (found,) = tensor_guards([Guard("TENSOR_MATCH", code(source, **other), source)])
    return found


def test_all_that_is_checked():
    found = only("L['self']._modules['fc']._parameters['weight']", type="Parameter", grad="True")
    assert (found.name, found.type, found.dtype, found.device) == ("self.fc.weight", "Parameter", "float32", "cpu")
    assert (found.requires_grad, found.sizes, found.strides) == (True, (2, 3), (3, 1))
    assert found.dispatch_keys == ("CPU", "BackendSelect", "ADInplaceOrView", "AutogradCPU")
    assert found.layout == "contiguous"
    assert found.is_parameter


@pytest.mark.parametrize(
    ("keys", "index", "device"),
    [
        (KEYS, "None", "cpu"),
        ("CUDA, BackendSelect, ADInplaceOrView, AutogradCUDA, AutocastCUDA", "1", "cuda:1"),
        ("Meta, BackendSelect, ADInplaceOrView, AutogradMeta", "None", "meta"),
        ("PrivateUse1", "0", "?:0"),
    ],
)
def test_devices(keys: str, index: str, device: str):
    assert only(keys=keys, device=index).device == device


@pytest.mark.parametrize(
    ("size", "stride", "sizes", "strides"),
    [("", "", (), ()), ("None, 6", "6, 1", (None, 6), (6, 1)), ("4, None", "None, 1", (4, None), (None, 1))],
)
def test_what_may_vary(size: str, stride: str, sizes: Numbers, strides: Numbers):
    found = only(size=size, stride=stride)
    assert (found.sizes, found.strides) == (sizes, strides)


@pytest.mark.parametrize(
    ("source", "kind", "is_parameter"),
    [
        ("L['x']", "Tensor", False),
        ("L['x']", "Parameter", True),
        ("L['self']._buffers['mean']", "Tensor", True),
        ("L['self'].cache", "Tensor", False),
    ],
)
def test_which_are_parameters(source: str, kind: str, is_parameter: bool):
    assert only(source, type=kind).is_parameter is is_parameter


def test_other_guards_and_other_wordings_are_left_out():
    found = [Guard("EQUALS_MATCH", code(), "L['x']"), Guard("TENSOR_MATCH", "check_tensor(L['x'])", "L['x']")]
    assert tensor_guards(found) == ()


def test_a_number_that_no_tensor_has():
    assert only(size=f"{'9' * 5000}, 3").sizes == (None, 3)


NOT_FIXED = "dimension {} may vary, within the relations that torch checks last"
SLICE = "not dense: dimension {} skips memory of a larger tensor, as in a slice"
PERMUTED = "dense, dimensions in memory order {}: a transpose or permute"


@pytest.mark.parametrize(
    ("sizes", "strides", "words"),
    [
        ((), (), "a single value"),
        ((2, 3), (), "strides not checked"),
        ((3,), (1,), "contiguous"),
        ((2, 3, 4), (12, 4, 1), "contiguous"),
        ((1, 3), (77, 1), "contiguous"),
        ((3, 1), (1, 1), "contiguous"),
        ((3, 1), (1, 77), "contiguous"),
        ((1, 1), (5, 5), "contiguous"),
        ((3, 0), (1, 1), "contiguous"),
        ((0, 3), (3, 1), "contiguous"),
        ((None, 3, 4), (12, 4, 1), "contiguous"),
        ((3, 5), (1, 3), PERMUTED.format("1, 0")),
        ((2, 3, 4), (1, 8, 2), PERMUTED.format("1, 2, 0")),
        ((2, 3, 4, 5), (60, 1, 15, 3), "channels last"),
        ((1, 3, 4, 5), (60, 1, 15, 3), "channels last"),
        ((2, 3, 4, 5, 6), (360, 1, 90, 18, 3), "channels last"),
        ((2, 1, 4, 5), (20, 1, 5, 1), "contiguous"),
        ((2, 3, 4), (12, 1, 3), PERMUTED.format("0, 2, 1")),
        ((4, 3), (10, 1), SLICE.format(0)),
        ((4, 3), (6, 2), SLICE.format(1)),
        ((3,), (2,), SLICE.format(0)),
        ((4, None), (10, 1), SLICE.format(0)),
        ((None, None), (8, 1), SLICE.format(0)),
        ((4, 3), (0, 1), "expanded: dimension 0 repeats the same memory"),
        ((4, 3, 2), (0, 0, 1), "expanded: dimension 0, 1 repeats the same memory"),
        ((1, 3), (0, 1), "contiguous"),
        ((None, 3), (0, 1), "expanded: dimension 0 repeats the same memory"),
        ((4, None), (None, 1), NOT_FIXED.format("0")),
        ((None, None, None), (None, None, 1), NOT_FIXED.format("0, 1")),
        ((None, 4), (1, None), NOT_FIXED.format("1")),
        ((4, 3, None), (None, None, 2), SLICE.format(2)),
        ((4, 3, 5), (None, 5, 2), SLICE.format(2)),
    ],
)
def test_meanings(sizes: Numbers, strides: Numbers, words: str):
    assert meaning(sizes, strides) == words


@fuzzing
@given(st.permutations(range(4)), st.lists(st.integers(2, 5), min_size=4, max_size=4))
def test_every_permutation_of_a_dense_tensor_is_dense(order: list[int], sizes: list[int]):
    strides, step = [0] * 4, 1
    for index in reversed(order):
        strides[index], step = step, step * sizes[index]
    seen = meaning(tuple(sizes), tuple(strides))
    assert seen.startswith("dense") or seen in ("contiguous", "channels last")
    assert (seen == "contiguous") is (order == sorted(order))


numbers = st.lists(st.none() | st.integers(0, 9), max_size=5).map(tuple)


@fuzzing
@given(numbers, numbers)
def test_any_numbers_mean_something(sizes: Numbers, strides: Numbers):
    assert meaning(sizes, strides)

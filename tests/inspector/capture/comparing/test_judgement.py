"""The rule for a value that differs from eager: wrong, or rounded differently?"""

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from ctrace.inspector.capture.comparing.judgement import Judgement, judged  # noqa: E402
from ctrace.inspector.capture.comparing.precision import BFLOAT16, FLOAT32  # noqa: E402
from ctrace.inspector.capture.comparing.snapshots import part_of  # noqa: E402

FINE, WRONG, UNDECIDED = Judgement.FINE, Judgement.WRONG, Judgement.UNDECIDED
NAN, INF = float("nan"), float("inf")


def random(*sizes: int, seed: int = 0) -> Any:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def off(values: Any, by: float, seed: int = 1) -> Any:
    """Change each value by a random multiple of this fraction of it."""
    return values * (1 + by * random(*values.shape, seed=seed))


def at(values: Any, place: int, value: float) -> Any:
    changed = values.clone()
    changed[place] = value
    return changed


def test_equal():
    values = random(100)
    assert judged(values.float(), values.float(), values, []).judgement is FINE


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_rounding_of_the_dtype_is_fine(dtype: Any):
    values = random(5000)
    result = judged(off(values, 1e-4).to(dtype), values.to(dtype), values, [])
    assert result.judgement is FINE


@pytest.mark.parametrize(
    ("eager", "compiled", "expected"),
    [
        (1e-2, 1e-4, FINE),
        (1e-3, 1.5e-3, FINE),
        (1e-3, 2.5e-3, FINE),
        (1e-3, 1e-2, WRONG),
        (0, 1e-5, WRONG),
        (0, 2e-7, FINE),
    ],
)
@pytest.mark.parametrize("size", [4, 100, 20_000])
def test_errors_by_size(eager: float, compiled: float, expected: Judgement, size: int):
    values = random(size)
    result = judged(off(values, eager).float(), off(values, compiled, 2).float(), values, [])
    assert result.judgement is expected
    assert result.eager_error is not None
    assert result.compiled_error is not None


def test_a_wrong_scale_that_each_value_could_have_from_rounding():
    values = random(20_000)
    assert judged(values.bfloat16(), values.bfloat16(), values, []).judgement is FINE
    assert judged(values.bfloat16(), (values * 1.01).bfloat16(), values, []).judgement is WRONG
    assert judged(values.bfloat16(), (values + 0.01).bfloat16(), values, []).judgement is WRONG


def test_one_wrong_value_of_a_million():
    values = random(1000, 1000)
    eager, compiled = off(values, 1e-3), off(values, 1e-3, 2)
    assert judged(eager.float(), compiled.float(), values, []).judgement is FINE
    compiled[500, 500] += 0.5
    assert judged(eager.float(), compiled.float(), values, []).judgement is WRONG


def test_a_small_value_beside_large_ones():
    values = random(2, 1000) * torch.tensor([[1e6], [1.0]])
    eager = off(values, 1e-6)
    compiled = off(values, 1e-6, 2)
    compiled[1, 3] = 2 * values[1, 3] + 1
    assert judged(eager.float(), compiled.float(), values, []).judgement is WRONG


def test_eager_that_hits_the_exact_result_by_luck_explains_nothing_until_it_is_rounded_otherwise():
    value = torch.tensor([1.0], dtype=torch.float64)
    eager, compiled = value.float(), value.float() * (1 + 1e-5)
    assert judged(eager, compiled, value, []).judgement is WRONG
    assert judged(eager, compiled, value, [off(value, 1e-5).float()]).judgement is FINE


FINITE = torch.tensor([1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("eager", "compiled", "reference", "expected"),
    [
        (at(FINITE, 0, NAN), at(FINITE, 0, NAN), at(FINITE, 0, NAN), FINE),
        (at(FINITE, 0, INF), at(FINITE, 0, INF), FINITE, FINE),
        (FINITE, at(FINITE, 0, NAN), FINITE, WRONG),
        (FINITE, at(FINITE, 0, INF), FINITE, WRONG),
        (at(FINITE, 0, NAN), FINITE, at(FINITE, 0, NAN), WRONG),  # compiled code lost a NaN
        (at(FINITE, 0, INF), FINITE, at(FINITE, 0, INF), WRONG),
        (at(FINITE, 0, INF), at(FINITE, 0, -INF), FINITE, WRONG),
        (at(FINITE, 0, NAN), FINITE, FINITE, FINE),  # inf - inf in eager; compiled code does better
        (at(FINITE, 0, NAN), at(FINITE, 0, 500.0), FINITE, UNDECIDED),
        (FINITE, at(FINITE, 0, 1.5), at(FINITE, 0, NAN), UNDECIDED),
        (at(FINITE, 0, NAN), at(FINITE, 1, 5.0), FINITE, WRONG),  # the NaN does not hide the other value
    ],
)
def test_nan_and_infinities(eager: Any, compiled: Any, reference: Any, expected: Judgement):
    assert judged(eager, compiled, reference.double(), []).judgement is expected


def test_an_overflow_where_the_exact_value_overflows_too():
    eager = torch.tensor([65504.0, 1.0], dtype=torch.float16)
    reference = torch.tensor([65519.0, 1.0], dtype=torch.float64)
    assert judged(eager, at(eager, 0, INF), reference, []).judgement is FINE
    assert judged(eager, at(eager, 1, INF), reference, []).judgement is WRONG


@pytest.mark.parametrize("scale", [1e-300, 1e-42, 1e-38, 1e30, 1e300])
@pytest.mark.parametrize("wrong", [False, True])
def test_huge_and_denormal_values(scale: float, *, wrong: bool):
    dtype = torch.float32 if 1e-43 < scale < 1e38 else torch.float64
    values = random(2000) * scale
    compiled = values * 1.5 if wrong else values
    hidden = scale < 1e-37 and dtype is torch.float32  # rounded to nothing, or flushed to zero
    result = judged(values.to(dtype), compiled.to(dtype), values, [])
    assert result.judgement is (WRONG if wrong and not hidden else FINE)


def test_values_flushed_to_zero_are_fine():
    values = torch.full((10,), 1e-40, dtype=torch.float64)
    assert judged(values.float(), torch.zeros(10), values, []).judgement is FINE


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool, torch.bfloat16])
def test_empty(dtype: Any):
    nothing = torch.zeros(0, 3, dtype=dtype)
    assert judged(nothing, nothing.clone(), nothing.double(), []).judgement is not WRONG


INTS = torch.tensor([3, 1, 2])


@pytest.mark.parametrize(
    ("eager", "compiled", "reference", "noisy", "expected"),
    [
        (INTS, torch.tensor([3, 1, 0]), INTS, [], WRONG),
        (INTS, torch.tensor([3, 1, 0]), torch.tensor([3, 1, 0]), [], UNDECIDED),
        (INTS, torch.tensor([3, 1, 0]), torch.tensor([0, 1, 2]), [], WRONG),  # the tie is elsewhere
        (INTS, torch.tensor([3, 1, 0]), INTS, [torch.tensor([3, 1, 7])], UNDECIDED),
        (INTS > 1, INTS > 2, INTS > 1, [], WRONG),
        (INTS, torch.tensor([3, 1]), INTS, [], WRONG),  # another size
        (INTS, torch.tensor([3, 1]), torch.tensor([1]), [], UNDECIDED),
        (1, 2, 1, [], WRONG),
        (1, 2, 1, [2], UNDECIDED),
        ("a", "b", "a", [], WRONG),
        (torch.ones(2), torch.ones(2, dtype=torch.float64), torch.ones(2, dtype=torch.float64), [], WRONG),
        ([1], [1, 2], [1], [], WRONG),
        ([1], [1, 2], [1, 3], [], UNDECIDED),
    ],
)
def test_what_is_not_rounded(eager: Any, compiled: Any, reference: Any, noisy: list[Any], expected: Judgement):
    others = [part_of(each) for each in noisy]
    assert judged(part_of(eager), part_of(compiled), part_of(reference), others).judgement is expected


def test_python_floats():
    assert judged(1.0, 1.0 + 1e-8, 1.0, []).judgement is FINE
    assert judged(1.0, 1.01, 1.0, []).judgement is WRONG
    assert judged(1.0, 1.01, 1.004, []).judgement is FINE


def test_what_rounding_alone_turns_over_is_not_judged():
    values = random(2000)
    result = judged(off(values, 0.8).float(), off(values, 0.8, 2).float(), values, [])
    assert result.judgement is UNDECIDED
    assert "rounding alone" in result.why


def test_a_gradient_that_is_zero_but_for_rounding_is_measured_by_the_others():
    zero = torch.zeros(2000, dtype=torch.float64)
    eager, compiled = random(2000).float() * 1e-9, random(2000, seed=2).float() * 1e-9
    assert judged(eager, compiled, zero, [], scale=1.0).judgement is FINE


def test_complex_numbers():
    values = torch.complex(random(2000), random(2000, seed=3))
    eager = values.to(torch.complex64)
    assert judged(eager, eager * (1 + 1e-7), values, []).judgement is FINE
    assert judged(eager, eager * 1j, values, []).judgement is WRONG


def test_a_gradient_smaller_than_a_rounding_of_the_largest_is_not_judged():
    values = random(2000) * 1e-4
    compiled = (values + 1e-3 * random(2000, seed=2)).float()
    assert judged(values.float(), compiled, values, [], scale=1.0, coarsest=BFLOAT16).judgement is UNDECIDED
    assert judged(values.float(), compiled, values, [], scale=1.0, coarsest=FLOAT32).judgement is WRONG
    assert judged(values.float(), compiled * 1000, values, [], scale=1.0, coarsest=BFLOAT16).judgement is WRONG


def flags(seed: int, threshold: float = 0.1, by: float = 1e-3) -> Any:
    return off(random(32_000), by, seed) > threshold


@pytest.mark.parametrize("seed", range(20))
def test_a_flag_that_hangs_on_a_tie_which_no_call_has_met_is_not_judged(seed: int):
    noisy = [flags(100 + 10 * seed + call) for call in range(8)]
    result = judged(flags(seed), flags(1000 + seed), flags(0, by=0), noisy)
    assert result.judgement in (FINE, UNDECIDED)


@pytest.mark.parametrize(("wrong", "expected"), [(2, UNDECIDED), (20, WRONG), (5000, WRONG)])
def test_more_flags_than_ties_can_explain_are_wrong(wrong: int, expected: Judgement):
    noisy = [flags(100 + call) for call in range(8)]
    compiled = flags(0)
    compiled[:wrong] = ~compiled[:wrong]
    assert judged(flags(0), compiled, flags(0, by=0), noisy).judgement is expected


def test_one_wrong_flag_is_found_where_rounding_changes_none():
    noisy = [flags(100 + call, by=1e-9) for call in range(8)]
    eager = flags(0, by=1e-9)
    compiled = eager.clone()
    compiled[7] = ~compiled[7]
    assert judged(eager, compiled, eager, noisy).judgement is WRONG

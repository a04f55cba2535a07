"""Which numbers a comparison of a tensor has as a comparison of its number has them."""

import pytest

from ctrace.inspector.edits.conditions import _is_exact

EXACT = (0, 1, -3, 0.5, 31.75, 100, 127, -127, 126.5)
SIGNED = ("float32", "float64", "float16", "bfloat16", "int8", "int64")
NEAR = (-1.0, -0.5, -0.25, 0.0, 0.25, 0.5, 1.0)


@pytest.mark.parametrize("number", EXACT)
def test_few_digits_are_exact(number: float):
    assert _is_exact(number)


@pytest.mark.thorough
@pytest.mark.parametrize("number", EXACT)
def test_exact_numbers_compare_alike_in_each_dtype(number: float):
    torch = pytest.importorskip("torch")
    for dtype in (getattr(torch, name) for name in SIGNED):
        for near in NEAR:
            tensor = (
                torch.tensor(number + near, dtype=dtype) if abs(number + near) <= 127 else torch.tensor(0, dtype=dtype)
            )
            assert (tensor >= number).item() == (tensor.item() >= number), (dtype, near)


@pytest.mark.parametrize("number", [0.1, 1 / 3, 126.25, 200.5, 128, 200, 256, 1e10])
def test_numbers_that_a_dtype_rounds_or_wraps_are_not_exact(number: float):
    assert not _is_exact(number)


@pytest.mark.thorough
def test_a_number_with_more_digits_than_bfloat16_is_not_exact():
    torch = pytest.importorskip("torch")
    assert bool(torch.tensor(200.0, dtype=torch.bfloat16) >= 200.5) is not (200.0 >= 200.5)

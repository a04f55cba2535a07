"""The most arithmetic: held against the data sheet of the H100 SXM, which gives it at 1.98 and 1.83 GHz."""

from dataclasses import replace

import pytest

from ctrace.inspector.rates import most_operations
from tests.built import H100


@pytest.mark.parametrize(
    ("dtype", "products", "tf32", "tera", "clock"),
    [
        ("float32", False, False, 67, 1.98e9),
        ("float64", False, False, 34, 1.98e9),
        ("float32", True, False, 67, 1.98e9),
        ("float32", True, True, 494.7, 1.83e9),
        ("bfloat16", True, False, 989.4, 1.83e9),
        ("float16", True, False, 989.4, 1.83e9),
        ("float8_e4m3fn", True, False, 1978.9, 1.83e9),
        ("bfloat16", False, False, 67, 1.98e9),
    ],
)
def test_the_data_sheet(dtype: str, products: bool, tf32: bool, tera: float, clock: float) -> None:
    most = most_operations(replace(H100, clock=clock), [dtype], products=products, tf32=tf32)
    assert most == pytest.approx(tera * 1e12, rel=0.02)


def test_not_known() -> None:
    assert most_operations(replace(H100, clock=None), ["float32"], products=True, tf32=True) is None
    assert most_operations(H100, ["int64"], products=True, tf32=True) is None
    assert most_operations(H100, [], products=True, tf32=True) is None
    other = replace(H100, multiprocessor=replace(H100.multiprocessor, capability=(99, 0)))
    assert most_operations(other, ["float32"], products=True, tf32=True) is None

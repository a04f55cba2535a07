"""Peak arithmetic rates agree with the data sheet of the H100 SXM, which assumes 1.98 and 1.83 GHz."""

import pytest
from msgspec.structs import replace

from ctrace.inspector.facts.built import Gpu
from ctrace.inspector.findings.kernels.built_view import matrix_rate, most_operations, peaks_by, vector_rate
from ctrace.inspector.knowledge.gpus.gpu_table import gpu_named
from tests.support.built import H100


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
    other = replace(H100, capability=(99, 0))
    assert most_operations(other, ["float32"], products=True, tf32=True) is None


def found(name: str) -> Gpu:
    """Return a GPU of the table as a run records it."""
    gpu = gpu_named(name)
    return Gpu(
        gpu.capability,
        gpu.registers,
        gpu.threads,
        gpu.shared,
        gpu.warp,
        name=gpu.title,
        processors=gpu.processors,
        tf32=(),
        clock=gpu.clock,
        bandwidth=gpu.bandwidth,
        rates=gpu.rates,
        vector_rates=gpu.vector_rates,
    )


class TestOfTheDataSheet:
    @pytest.mark.parametrize("name", ["h100", "h100-pcie", "h200", "a100", "v100", "t4", "l4", "l40s", "b200"])
    def test_what_is_computed_agrees(self, name: str) -> None:
        """The data sheets of Hopper and later give tensor cores at a clock that is up to 8 % lower than the highest."""
        gpu = found(name)
        computed = replace(gpu, rates={}, vector_rates={})
        for format_, rate in gpu.vector_rates.items():
            assert vector_rate(computed, format_) == pytest.approx(rate, rel=0.03)
        for format_, rate in gpu.rates.items():
            if format_ != "int8":
                matrix = matrix_rate(computed, format_)
                assert matrix is not None
                assert 0.97 * rate <= matrix <= 1.11 * rate

    def test_it_goes_first(self) -> None:
        gpu = found("h100")
        assert most_operations(gpu, ["bfloat16"], products=True, tf32=False) == 989.4e12
        assert most_operations(gpu, ["float32"], products=True, tf32=True) == 494.7e12
        assert most_operations(gpu, ["float32"], products=True, tf32=False) == 66.9e12
        assert most_operations(gpu, ["float8_e4m3fn"], products=True, tf32=False) == 1978.9e12
        assert most_operations(gpu, ["float64"], products=False, tf32=False) == 33.5e12
        assert most_operations(gpu, ["int8"], products=True, tf32=False) == 1978.9e12

    def test_what_it_does_not_name_is_computed(self) -> None:
        assert most_operations(found("a10g"), ["float32"], products=False, tf32=False) == pytest.approx(35e12, rel=0.01)
        assert most_operations(found("t4"), ["bfloat16"], products=True, tf32=False) == 8.1e12

    def test_where_nothing_is_known_there_is_no_bound(self) -> None:
        assert most_operations(found("rtx-5090"), ["float64"], products=True, tf32=False) is None

    def test_what_it_rests_on_is_said(self) -> None:
        assert "data sheet" in peaks_by(found("h100"))
        assert "data sheet" not in peaks_by(H100)

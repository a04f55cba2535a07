"""The best configuration, and why others are slower."""

import pytest
from msgspec.structs import replace

from ctrace.inspector.features.time.events import KernelUsed
from ctrace.inspector.features.time.timing_differences import differences, short_name
from ctrace.inspector.features.time.timing_model import MeasuredConfiguration, Timings
from ctrace.inspector.features.time.timing_view import ranking
from ctrace.inspector.findings.ratios import RatioVerdict
from tests.support import timings


def test_the_best_is_faster_than_every_other_one():
    found = ranking(timings.MODES)
    assert (found.best, found.tied) == ("reduce-overhead", ())
    assert [each.verdict for each in found.ranks] == [
        RatioVerdict.FASTER,
        RatioVerdict.NO_DIFFERENCE,
        RatioVerdict.FASTER,
        None,
    ]


def test_eager_is_best_if_all_are_slower():
    assert ranking(timings.ALL_SLOWER).best == "eager"


def test_two_that_cannot_be_told_apart_are_tied():
    found = ranking(timings.TIED)
    assert (found.best, found.tied) == (None, ("default", "max-autotune"))


def test_eager_that_differs_between_processes_widens_every_comparison():
    """Both modes look 10% apart, but eager itself differed by 20% between their processes."""
    one, two = timings.configuration("a", 1.0e-3, 0.50e-3), timings.configuration("b", 1.2e-3, 0.66e-3)
    assert ranking(Timings("m", (one, two), is_table=True)).best is None
    two = timings.configuration("b", 1.0e-3, 0.55e-3)
    assert ranking(Timings("m", (one, two), is_table=True)).best == "a"


def test_nothing_measured_has_no_best():
    found = ranking(timings.NOTHING)
    assert (found.best, found.lead) == (None, None)
    assert differences(timings.NOTHING) == ()


def test_no_faster_and_no_slower_than_eager_is_tied_with_it():
    same = timings.configuration("default", 1e-3, 1e-3)
    found = ranking(Timings("m", (same,), is_table=True))
    assert (found.best, found.tied) == (None, ("eager", "default"))


def test_a_difference_names_the_cuda_graph_and_torch_s_reason():
    found = {each.other: each for each in differences(timings.MODES)}
    assert set(found) == {"default", "max-autotune"}
    texts = [each.text for each in found["max-autotune"].reasons if each.kind == "cuda_graphs"]
    assert texts == [
        "reduce-overhead replays a CUDA graph; max-autotune launches each kernel: torch skipped its CUDA graph",
        "max-autotune: skipping cudagraphs due to x",
    ]
    assert found["default"].gap == pytest.approx(0.41e-3, rel=0.03)


def kernels(measured: MeasuredConfiguration, *names_and_seconds: tuple[str, float]) -> MeasuredConfiguration:
    used = tuple(KernelUsed(name, 1.0, seconds) for name, seconds in names_and_seconds)
    shares = tuple(replace(each, kernel_list=used) if each.side == "compiled" else each for each in measured.shares)
    return replace(measured, shares=shares)


def test_a_difference_names_the_kernels_and_their_time():
    fast = kernels(timings.configuration("max-autotune", 1e-3, 0.5e-3), ("triton_mm", 1e-5), ("relu", 1e-5))
    slow = kernels(timings.configuration("default", 1e-3, 0.8e-3), ("cublas", 5e-5), ("relu", 1e-5))
    (found,) = differences(Timings("m", (slow, fast), is_table=True))
    (reason,) = [each for each in found.reasons if each.kind == "kernels"]
    assert reason.text == "cublas instead of triton_mm"
    assert reason.seconds == pytest.approx(4e-5)


def test_timed_reasons_come_by_size():
    found = differences(timings.ALL_SLOWER)
    seconds = [abs(each.seconds) for each in found[0].reasons if each.seconds is not None]
    assert seconds == sorted(seconds, reverse=True)


@pytest.mark.parametrize(
    ("kernel", "short"),
    [
        ("triton_poi_fused_add_0", "triton_poi_fused_add_0"),
        (
            "void cutlass::Kernel2<cutlass_80_simt_sgemm_64x64>(cutlass_80_simt_sgemm_64x64::Params)",
            "cutlass_80_simt_sgemm_64x64",
        ),
        (
            "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::Copy<float, float> >(int)",
            "multi_tensor_apply_kernel",
        ),
        ("", ""),
    ],
)
def test_a_cpp_kernel_has_its_own_name(kernel: str, short: str):
    assert short_name(kernel) == short

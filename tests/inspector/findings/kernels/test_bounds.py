"""Bounds by bytes and operations equal hand counts."""

import pytest
from msgspec.structs import replace

from ctrace.inspector.findings.kernels.bounds import bounds, peaks, whole
from tests.support.kernelsessions import MM
from tests.support.targeted import EMITTED, H100, ON_T4


def test_bounds_of_calls_are_added_up() -> None:
    forward, backward, processor = bounds(EMITTED)
    names = [each.row.label for each in forward.kernels]
    assert names == ["mm", "triton_per_fused_add_amax_div_exp_sub_sum_0", "scale_kernel_0"]
    mm, attention, users = forward.kernels
    assert mm.seconds == pytest.approx((32768 + 16384 + 24576 + 8192) / 3.35e12)
    assert mm.sets == ("memory",)
    assert attention.seconds == pytest.approx(33024 / 3.35e12)
    assert (users.seconds, users.sets) == (None, ())
    assert forward.seconds == pytest.approx((81920 + 33024) / 3.35e12)
    assert (forward.unknown, backward.unknown) == (1, 0)
    # C++ runs on the processor, whatever GPU there is.
    assert (processor.seconds, processor.unknown) == (None, 1)
    assert whole(EMITTED) == pytest.approx((81920 + 33024 + 3072) / 3.35e12)


def test_a_costly_product_is_bound_by_arithmetic() -> None:
    launch = replace(MM.launches[0], flops=10**12)
    session = replace(EMITTED, kernels=(replace(MM, calls=2, launches=(launch, MM.launches[0])),))
    (part,) = bounds(session)
    assert part.kernels[0].sets == ("arithmetic", "memory")
    (rate,) = peaks(bounds(session))
    assert rate == pytest.approx(256 * 132 * 1.98e9)
    faster = bounds(replace(session, gpu=replace(H100, tf32=("matmul",))))
    assert list(peaks(faster)) == [pytest.approx(rate * 8)]


def test_calls_on_the_processor_have_no_bound() -> None:
    argument = replace((MM.launches[0].arguments or ())[0], device="cpu")
    launch = replace(MM.launches[0], arguments=(argument,))
    (part,) = bounds(replace(EMITTED, kernels=(replace(MM, calls=1, launches=(launch,)),)))
    assert part.seconds is None


def test_a_launch_that_is_missing_makes_the_bound_unknown() -> None:
    (part,) = bounds(replace(EMITTED, kernels=(replace(MM, calls=3),)))
    assert part.seconds is None


def test_without_a_bandwidth_only_operations_count() -> None:
    assert {sets for part in bounds(ON_T4) for each in part.kernels for sets in each.sets} == {"arithmetic"}
    assert whole(replace(ON_T4, gpu=None)) is None

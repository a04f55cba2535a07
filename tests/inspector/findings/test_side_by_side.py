"""One program for several GPUs: which kernels correspond, and whether their code is the same."""

from msgspec.structs import replace

from ctrace.inspector.findings.side_by_side import SourceComparison, side_by_side
from tests.support.kernelsessions import PER
from tests.support.targeted import EMITTED, MUL, ON_A100, ON_T4

TARGETS = {"a100": ON_A100, "h100": EMITTED}


def test_kernels_are_matched_by_name_then_by_place() -> None:
    forward, backward, processor = side_by_side(TARGETS)
    assert [(each.name, each.code, list(each.on)) for each in forward.kernels] == [
        ("extern_kernels.mm", SourceComparison.LIBRARY, ["a100", "h100"]),
        (PER.name, SourceComparison.DIFFERS, ["a100", "h100"]),
        ("scale_kernel_0", SourceComparison.NOT_EVERYWHERE, ["h100"]),
    ]
    (mul,) = backward.kernels
    assert [one.kernel.name for one in mul.on.values()] == ["triton_poi_fused_mul_1", MUL]
    assert [each.code for each in processor.kernels] == [SourceComparison.SAME]
    assert [each.name for each in forward.different] == [PER.name, "scale_kernel_0"]


def test_figures_of_each() -> None:
    forward, *_ = side_by_side(TARGETS)
    attention = forward.kernels[1]
    assert [len(one.resources) for one in attention.on.values()] == [1, 2]
    assert (forward.least.seconds["a100"] or 0) > (forward.least.seconds["h100"] or 0) > 0


def test_what_a_source_says_of_the_gpu_makes_no_difference() -> None:
    def on(name: str, device: str):
        source = f"meta={{'device': DeviceProperties(cc={device}), 'backend_hash': 'AB{device}'}}\ndef {name}(): pass\n"
        return replace(EMITTED, kernels=(replace(PER, name=name, source=source),))

    (part,) = side_by_side({"a": on("triton_poi_0", "80"), "b": on("triton_poi_1", "90")})
    assert [each.code for each in part.kernels] == [SourceComparison.SAME]


def test_three_and_parts_that_not_all_have() -> None:
    small = replace(ON_T4, kernels=ON_T4.kernels[:1])
    forward, backward, _ = side_by_side({**TARGETS, "t4": small})
    assert list(forward.kernels[0].on) == ["a100", "h100", "t4"]
    assert forward.kernels[1].code is SourceComparison.NOT_EVERYWHERE
    assert list(backward.least.seconds) == ["a100", "h100"]


def test_code_that_is_not_in_the_log() -> None:
    bare = replace(EMITTED, kernels=(replace(PER, source=""),))
    (part,) = side_by_side({"a": bare, "b": bare})
    assert part.kernels[0].code is SourceComparison.NOT_KNOWN

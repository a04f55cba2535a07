"""What torch chose, from what it was handed, measured and took."""

import json

import pytest

from ctrace.inspector.facts.autotuning import ChoiceStatus, TimeSpread
from ctrace.inspector.findings.autotuning_fold import tuned_kernels_of, tuned_of
from ctrace.inspector.log.collected_log import CollectedLog
from ctrace.inspector.log.dispatch import reported
from ctrace.inspector.log.fields import Fields
from tests.support.helpers import decoded, recorded

CHOICES = {
    "what": "choices",
    "number": 0,
    "op": "mm",
    "inputs": [{"shape": ["64", "s0"], "stride": ["s0", "1"], "dtype": "bfloat16", "device": "cuda"}],
    "choices": [{"name": name, "kind": "", "configuration": ""} for name in ("mm", "triton_mm_0", "triton_mm_1")],
    "untried": [{"what": "CUTLASS templates", "reasons": ["not in max_autotune_gemm_backends (ATEN)"]}],
    "lines": ["/home/user/model.py:3"],
    "is_on": True,
}


def timing(name: str, seconds: float | None, **more: object) -> dict[str, object]:
    return {"name": name, "seconds": seconds, "built": True, "ran": seconds is not None, "error": "", **more}


def times(*timings: dict[str, object], **more: object) -> dict[str, object]:
    return {"what": "times", "number": 0, "choices": list(timings), "cached": False, "seconds": 2.0} | more


def raw_of(*payloads: dict[str, object], built: bool = True) -> CollectedLog:
    raw = CollectedLog(environment={"built": built})
    for payload in payloads:
        raw.autotuning.append(decoded("autotune", {"stage": "inference", **payload}))
    return raw


def test_choices_without_times_are_not_timed() -> None:
    (found,) = tuned_of(raw_of(CHOICES))
    assert {each.status for each in found.choices} == {ChoiceStatus.NOT_TIMED}
    assert (found.is_swept, found.taken, found.seconds) == (False, None, None)


def test_a_run_that_builds_nothing_does_not_say_what_torch_would_not_try() -> None:
    (found,) = tuned_of(raw_of(CHOICES, built=False))
    assert (found.untried, found.is_on) == ((), None)
    (found,) = tuned_of(raw_of(CHOICES))
    assert (len(found.untried), found.is_on) == (1, True)


def test_the_fastest_choice_comes_first_and_failures_last() -> None:
    spread = {"runs": 10, "fastest": 1e-6, "low": 2e-6, "median": 3e-6, "high": 4e-6}
    failed = timing("mm", None, error="OutOfResources: out of resource: shared memory")
    sweep = times(failed, timing("triton_mm_0", 9e-6), timing("triton_mm_1", 3e-6, **spread), compile_seconds=1.5)
    (found,) = tuned_of(raw_of(CHOICES, sweep, {"what": "taken", "number": 0, "name": "triton_mm_0", "fused": True}))
    assert [each.name for each in found.choices] == ["triton_mm_1", "triton_mm_0", "mm"]
    assert found.choices[0].spread == TimeSpread(10, 1e-6, 2e-6, 3e-6, 4e-6)
    assert found.choices[2].status is ChoiceStatus.DOES_NOT_FIT
    assert (found.taken, found.is_fused, found.compile_seconds) == ("triton_mm_0", True, 1.5)


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        ({"built": False, "error": "CompilationError: at 3:4"}, ChoiceStatus.FAILED_TO_COMPILE),
        ({"built": False, "error": "out of resource: shared memory"}, ChoiceStatus.DOES_NOT_FIT),
        ({"error": "RuntimeError: invalid argument"}, ChoiceStatus.FAILED_TO_RUN),
        ({}, ChoiceStatus.FAILED_TO_RUN),
        ({"ran": True}, ChoiceStatus.NOT_TIMED),
    ],
)
def test_why_a_choice_has_no_time(outcome: dict[str, object], status: ChoiceStatus) -> None:
    (found,) = tuned_of(raw_of(CHOICES, times(timing("mm", None, **outcome))))
    assert next(each.status for each in found.choices if each.name == "mm") is status


def test_a_sweep_of_an_unknown_operation_is_left_out() -> None:
    assert tuned_of(raw_of(times(timing("mm", 1e-6)))) == ()


def test_an_unknown_event_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Invalid value .else. - at `\$\.what`"):
        raw_of({"what": "else"})


def test_configurations_of_a_kernel() -> None:
    payload = {
        "what": "configurations",
        "kernel": "triton_poi_0",
        "configurations": [{"name": "XBLOCK: 1", "seconds": 3e-6}, {"name": "XBLOCK: 2", "seconds": None}],
        "taken": "XBLOCK: 1",
        "cache": "miss",
        "sizes": {"x": "64"},
        "seconds": 0.1,
    }
    (found,) = tuned_kernels_of(raw_of(payload))
    assert [each.status for each in found.configurations] == [ChoiceStatus.TIMED, ChoiceStatus.FAILED_TO_RUN]
    assert (found.taken, dict(found.sizes)) == ("XBLOCK: 1", {"x": "64"})


def span(name: str, **facts: str) -> Fields:
    return Fields({"name": name, "ph": "E", "args": facts}, "a span")


STATS = json.dumps(
    {
        "num_choices": 20,
        "num_triton_choices": 19,
        "best_kernel": "mm",
        "best_time": 0.0113,
        "best_triton_pos": 1,
        "best_triton_kernel": "triton_mm_7",
        "best_triton_time": 0.0125,
    }
)


def test_torchs_own_log_names_the_best_choices_and_counts_the_others() -> None:
    failures = json.dumps(
        {"exceptions": [{"choice_type": "triton", "choice": "BLOCK_M=256", "exception_message": "no"}]}
    )
    spans = (
        span("mm_template_precompiling", metadata=failures),
        span("mm_template_autotuning", autotune_choices_stats=STATS, autotune_shape="2x3, 3x4", autotune_dtypes="a, a"),
        span("mm_template_autotuning"),
        span("compile_inner"),
    )
    raw = CollectedLog(autotuning=[event for each in spans if (event := reported("0/0", each)) is not None])
    (found,) = tuned_of(raw)
    assert [each.name for each in found.choices] == ["mm", "triton_mm_7", ""]
    assert found.choices[0].seconds == pytest.approx(11.3e-6)
    assert found.choices[2].status is ChoiceStatus.FAILED_TO_COMPILE
    assert (found.unnamed, [each.shape for each in found.inputs]) == (18, [("2", "3"), ("3", "4")])


def test_a_recorded_run_has_both_choices_with_their_spread() -> None:
    (found,) = recorded("autotuned").tuned
    assert (found.op, found.is_swept, found.is_cached) == ("packed_linear", True, False)
    assert [(each.name, each.kind) for each in found.choices] == [
        ("cpp_CppMicroGemmFP32Vec_0", "cpp"),
        ("_mkl_linear", "external"),
    ]
    assert all(each.spread is not None and each.spread.median == each.seconds for each in found.choices)
    assert found.taken == found.choices[0].name
    assert found.seconds is not None
    assert found.timing_seconds is not None
    assert found.timing_seconds <= found.seconds


def test_a_recorded_log_of_torch_alone_has_the_best_choice() -> None:
    (found,) = recorded("autotuned_program.torch").tuned
    assert (found.op, found.unnamed, found.taken, found.stage) == ("packed_linear", 1, None, None)
    assert [each.name for each in found.choices] == ["cpp_CppMicroGemmFP32Vec_0"]
    assert found.choices[0].spread is None

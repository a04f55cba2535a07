"""How user-written Triton kernels are described."""

from msgspec.structs import replace

from ctrace.inspector.facts.kernel_facts import Stage
from ctrace.inspector.facts.session import Session
from ctrace.inspector.facts.user_kernels import Epilogue
from ctrace.inspector.findings.kernels.user_kernels_view import (
    EPILOGUES,
    calls,
    in_one_line,
    notes,
    specialized,
)
from tests.support.userkernels import ADD, OP, SESSION, TUNED


def seen(kernel: object) -> str:
    return " ".join(f"{note.text} {note.todo}" for note in notes(kernel))  # type: ignore[arg-type]


def test_calls_that_are_alike_are_told_once() -> None:
    again = replace(ADD, operation="op3", name="add_relu_kernel_1")
    found = calls(Session(user_kernels=(ADD, TUNED, again)))
    assert [(each.kernel.kernel, each.number) for each in found] == [("add_relu_kernel", 2), ("scale_kernel", 1)]
    assert found[0].names == ("add_relu_kernel_0", "add_relu_kernel_1")


def test_one_line_counts_kernels_calls_and_what_torch_assumed() -> None:
    assert in_one_line(Session()) == ""
    assert in_one_line(Session(user_kernels=(ADD,))) == "1 user-written Triton kernel, 1 call"
    assert in_one_line(SESSION) == (
        "4 user-written Triton kernels, 4 calls; for 2 calls, torch assumes that all tensors are written; "
        "no code was generated for 1"
    )


def test_a_plain_kernel_in_inference_has_no_limits() -> None:
    assert list(notes(ADD)) == []
    assert [each.name for each in specialized(ADD)] == ["block"]


def test_what_torch_assumes_is_said_with_its_reason() -> None:
    assert "assumes all 2: RuntimeError: ttir analysis" in seen(TUNED)
    raised = "CompilationError: at 3:26:\ndef f(x):\n    y\n    ^\nNameError('y is not defined')"
    assert "CompilationError: at 3:26: … NameError('y is not defined')" in seen(replace(ADD, assumed=raised))


def test_tuning_and_heuristics_are_done_once() -> None:
    assert "A new value of size does not trigger autotuning again" in seen(TUNED)
    assert "Torch computes the values of triton.heuristics (even)" in seen(TUNED)
    assert "tune" not in seen(replace(TUNED, all_configs=TUNED.all_configs[:1]))


def test_a_fallback_does_not_run_in_compiled_code() -> None:
    assert "Its kernel for cpu does not run here" in seen(OP)
    assert "gelu.register_autograd" in seen(OP)
    assert "which Triton does not support" in seen(replace(ADD, device="cpu"))


def test_a_kernel_without_a_gradient_matters_in_training() -> None:
    assert "It has no gradient." in seen(replace(ADD, stage=Stage.FORWARD))


def test_every_answer_on_epilogues_has_words() -> None:
    assert set(EPILOGUES) == set(Epilogue)

"""Calls of user-written Triton kernels: from a log to a session."""

from typing import Any

from ctrace.inspector.facts.kernel_facts import Stage
from ctrace.inspector.facts.user_kernels import Epilogue, ParameterKind, UserKernel
from tests.inspector.findings.test_damage import SPECIMENS
from tests.support.helpers import MODEL, Log

LOWERED = SPECIMENS["artifact:ctrace_user_kernel"]
WRITTEN = SPECIMENS["artifact:ctrace_user_kernel_code"]


def kernels(*records: tuple[str, dict[str, Any]]) -> tuple[UserKernel, ...]:
    log = Log().started()
    for name, payload in records:
        log.ctrace(name, payload, at="0/0")
    session = log.ended().session()
    assert session.problems == ()
    return session.user_kernels


def test_a_call_is_joined_with_its_code() -> None:
    (kernel,) = kernels(("user_kernel", LOWERED), ("user_kernel_code", WRITTEN))
    assert (kernel.graph, kernel.stage, kernel.operation) == ("0/0", Stage.FORWARD, "op1")
    assert (kernel.kernel, kernel.name, kernel.file, kernel.line) == ("add_kernel", "add_kernel_0", MODEL, 3)
    assert kernel.lines == (f"{MODEL}:9",)
    assert kernel.written == ("x_ptr",)
    assert kernel.parameters[0].kind is ParameterKind.TENSOR
    assert kernel.epilogue is Epilogue.POSSIBLE
    assert kernel.op is not None
    assert kernel.op.fallbacks == ("cpu",)


def test_a_call_whose_code_was_not_written_is_kept() -> None:
    (kernel,) = kernels(("user_kernel", LOWERED))
    assert kernel.name == ""
    assert kernel.epilogue is None


def test_code_of_a_call_that_is_not_in_the_log_is_left_out() -> None:
    assert kernels(("user_kernel_code", WRITTEN)) == ()


def test_a_graph_that_is_lowered_again_has_its_calls_once() -> None:
    again = {**LOWERED, "assumed": ""}
    (kernel,) = kernels(("user_kernel", LOWERED), ("user_kernel", again))
    assert kernel.assumed == ""


def test_a_constant_of_the_code_is_fixed() -> None:
    number = {**LOWERED["parameters"][0], "name": "block", "kind": "number", "value": "256", "written": None}
    lowered = {**LOWERED, "parameters": [number]}
    (kernel,) = kernels(("user_kernel", lowered), ("user_kernel_code", WRITTEN))
    assert kernel.parameters[0].fixed

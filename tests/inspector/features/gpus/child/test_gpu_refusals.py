"""The problem recorded for a graph without code for the target GPU."""

from typing import Any, cast

import pytest

pytest.importorskip("torch")

from torch._dynamo.exc import RestartAnalysis, SkipFrame

from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.features.gpus.child.move_graph import without_code


class Problems:
    def __init__(self) -> None:
        self.found: list[str] = []

    def problem(self, what: str) -> None:
        self.found.append(what)


def said(error: Exception) -> str:
    """Return the problem recorded for an error of Inductor."""
    problems: Any = Problems()
    with without_code(cast(Recorder, problems), "h100"):
        raise error
    (what,) = problems.found
    return str(what)


QUOTED = '\nOriginal traceback:\n  File "/home/u/model.py", line 8, in forward\n    return x + self.table\n'


def test_tensors_on_two_devices_would_raise_there_too() -> None:
    assert said(RuntimeError(f"Expected all tensors to be on the same device, found cuda:0 and cpu{QUOTED}")) == (
        "this would raise on the GPU at /home/u/model.py:8: an op mixes tensors on the CPU and the GPU. A tensor created "
        "without a device is on the CPU: create it with `device=x.device`"
    )


def test_a_skipped_function_is_named_with_the_reason() -> None:
    assert said(SkipFrame("BF16 is not supported")) == (
        "torch would leave the function of a graph in eager on h100, and raise with fullgraph=True: it does not support "
        "bfloat16; float16 and float32 compile there"
    )


def test_a_reason_of_torch_that_is_not_known_is_quoted() -> None:
    assert said(SkipFrame("something else")).endswith("raise with fullgraph=True: something else")


def test_any_other_error_is_quoted_with_its_first_line() -> None:
    assert said(KeyError("\n\n  no such key\nmore")).startswith("no code of a graph was emitted for h100: KeyError: ")
    assert said(ValueError(f"no lowering for x{QUOTED}")) == (
        "no code of a graph was emitted for h100: ValueError: no lowering for x at /home/u/model.py:8"
    )


def test_a_restart_of_dynamo_is_no_failure() -> None:
    problems: Any = Problems()
    with pytest.raises(RestartAnalysis), without_code(cast(Recorder, problems), "h100"):
        raise RestartAnalysis("again")
    assert problems.found == []

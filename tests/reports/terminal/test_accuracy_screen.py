"""`ctrace accuracy` on screen and as JSON."""

import json

import pytest
from msgspec.structs import replace

from ctrace.inspector.facts.accuracy_facts import (
    Accuracy,
    Culprit,
    FirstNonfinite,
    NotCompared,
    PathStep,
    Promises,
)
from ctrace.reports.json.accuracy_json import render_accuracy_json
from ctrace.reports.terminal.accuracy_screen import accuracy_screen
from tests.support.golden import WIDTHS, assert_golden, drawn
from tests.support.poison import UNSEEN

RELU = Culprit(
    "kernel", "cpp_fused_relu_0", 0, "forward", "base", "/work/model.py", 14, "forward", ("aten.relu",), 1.0, 0.0,
    "float64", "h = torch.relu(x)", "Inductor's code for aten.relu", "torch._inductor.lowering.make_fallback(...)", 0.0,
)  # fmt: skip
BACKWARD = replace(RELU, name="cpp_fused_relu_threshold_backward_1", part=1, stage="backward", error=None)
LOST = replace(
    RELU, line=20, ops=("aten.sigmoid",), against="eager", source="y = h.sigmoid()", remedy=None, remedy_error=None,
    reason="the fused kernel keeps aten.sigmoid in float32, where eager rounds it to bfloat16", scenario="wide",
)  # fmt: skip
UNKNOWN = replace(RELU, file=None, line=None, ops=("aten.mul", "aten.add"), reason=None, remedy=None, source="")
PASS = replace(RELU, kind="pass", name="post-grad passes", line=30, ops=("aten.mul",), reason=None, remedy=None)
FINE = Accuracy(
    True, (), None, (), Promises(), (), compared=14, kernels=5, graphs=2, scenarios=("base",), result="rounding",
    compiled_runs=1, pieces=0,
)  # fmt: skip
WRONG = replace(
    FINE,
    equal=False,
    culprits=(RELU, BACKWARD, PASS, UNKNOWN, LOST),
    first_nonfinite=FirstNonfinite("/work/model.py", 15, "aten.log", "cpp_fused_log_2", in_eager=True),
    path=(PathStep("cpp_fused_relu_0", "/work/model.py:14", 1.0), PathStep("extern_kernels.mm", None, None)),
    promises=Promises(run_to_run=False, batch_invariant=True, run_to_run_broken_by="cpp_fused_sum_3"),
    not_compared=(NotCompared("aten.rand", "aten.rand draws random numbers"),),
    result="wrong",
    compiled_runs=2,
    pieces=7,
)


@pytest.mark.parametrize("width", WIDTHS)
def test_screen(width: int) -> None:
    assert_golden(f"accuracy-{width}.txt", drawn(accuracy_screen(WRONG, "model.py", width), width))


def test_nothing_wrong() -> None:
    shown = " ".join(drawn(accuracy_screen(FINE, "model.py", 80), 80).split())
    assert shown.startswith("EQUAL model.py Nothing is beyond rounding in 14 stored results of 5 kernels")
    assert "So is the whole result." in shown


def test_what_is_not_compared_is_never_equal() -> None:
    found = replace(FINE, equal=None, not_compared=WRONG.not_compared, result="not_compared")
    shown = " ".join(drawn(accuracy_screen(found, "model.py", 80), 80).split())
    assert shown.startswith("NOT ALL COMPARED")
    assert "The whole result was not compared." in shown


def test_json_has_the_names_of_the_schema() -> None:
    found = json.loads(render_accuracy_json(WRONG, "model.py"))
    assert found["equal"] is False
    first = found["culprits"][0]
    assert (first["line"], first["ops"], first["error"], first["against"]) == (14, ["aten.relu"], 1.0, "float64")
    assert found["culprits"][1]["error"] is None
    assert found["first_nonfinite"]["in_eager"] is True
    assert found["path"][1] == {"name": "extern_kernels.mm", "line": None, "error": None}


def test_foreign_text_cannot_control_the_terminal() -> None:
    hostile = replace(RELU, file=f"/{UNSEEN}.py", source=UNSEEN, name=UNSEEN)
    shown = drawn(accuracy_screen(replace(WRONG, culprits=(hostile,)), UNSEEN, 80), 80)
    assert not any(letter in shown for letter in UNSEEN if not letter.isprintable())

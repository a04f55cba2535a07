"""`ctrace accuracy` on screen and as JSON."""

import json

import pytest
from msgspec.structs import replace

from ctrace.inspector.facts.accuracy_facts import (
    Accuracy,
    AccuracyDocument,
    Culprit,
    FirstNonfinite,
    NotCompared,
    PathStep,
    Promises,
    Training,
    TrainingStep,
)
from ctrace.reports.json.printer import render
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
    first_nonfinite=FirstNonfinite("/work/model.py", 15, "aten.log", "cpp_fused_log_2", in_eager=True, stage="forward"),
    path=(PathStep("cpp_fused_relu_0", "/work/model.py:14", 1.0), PathStep("extern_kernels.mm", None, None)),
    promises=Promises(run_to_run=False, batch_invariant=True, run_to_run_broken_by="cpp_fused_sum_3"),
    not_compared=(NotCompared("aten.rand", "aten.rand draws random numbers"),),
    result="wrong",
    compiled_runs=2,
    pieces=7,
)

STEP = TrainingStep(
    1, 2.5, 2.5, parted=False, parameter=None, loss_float64=2.50001, loss_one_bit=2.5, gradient_norm_eager=1.0,
    gradient_norm_compiled=1.0, gradient_norm_float64=1.0, apart_compiled=1.2e-7, apart_one_bit=3e-9, apart_float64=2e-7,
)  # fmt: skip
PARTED = replace(
    STEP, step=9, loss_compiled=2.75, parted=True, parameter="layers.3.weight", error=1.5, eager_error=2e-5,
    apart_compiled=0.03,
)  # fmt: skip
TRAINING = Training(
    "the scalar that the model returns", "`optimizer` of the file (SGD)", "head.weight[3, 1]", "compiler"
)
TRAINED = replace(
    FINE,
    equal=False,
    culprits=(replace(RELU, step=9),),
    first_nonfinite=FirstNonfinite(None, None, "the step of SGD", "head.bias", in_eager=False, step=20),
    steps=tuple(replace(STEP if step < 9 else PARTED, step=step) for step in range(1, 21)),
    training=TRAINING,
    compiled_runs=22,
)


def shown_of(found: Accuracy, target: str, width: int) -> str:
    return drawn(accuracy_screen(AccuracyDocument(target, found, "/elsewhere"), width), width)


@pytest.mark.parametrize("width", WIDTHS)
def test_training_screen(width: int) -> None:
    assert_golden(f"accuracy-training-{width}.txt", shown_of(TRAINED, "model.py", width))


def test_training_that_parts_without_a_culprit() -> None:
    shown = " ".join(shown_of(replace(TRAINED, culprits=()), "model.py", 80).split())
    assert "Training parts at step 9, in layers.3.weight: off by 1.5 where eager is off by 2e-05. No kernel is" in shown


@pytest.mark.parametrize(
    ("by", "apart", "says"),
    [
        ("chaos", 0.1, "The runs part by chaos: one changed bit gets about as far."),
        ("rounding", 0.1, "The runs part by rounding alone."),
        ("rounding", 0.0, "Compiled parameters are those of eager."),
    ],
)
def test_training_that_does_not_part(by: str, apart: float, says: str) -> None:
    steps = (replace(STEP, apart_compiled=apart),)
    found = replace(FINE, steps=steps, training=replace(TRAINING, parted_by=by))
    shown = " ".join(shown_of(found, "model.py", 80).split())
    assert f"No step that was compared is beyond rounding. {says}" in shown


@pytest.mark.parametrize(
    ("result", "says"),
    [("rounding", "So is each whole graph."), ("not_compared", "Not each whole graph was compared.")],
)
def test_a_program(result: str, says: str) -> None:
    found = replace(FINE, program="exit code 7", scenarios=(), result=result)
    shown = " ".join(shown_of(found, "train.py", 80).split())
    assert says in shown
    assert "The program ended with exit code 7. 2 graphs, the first call of each compared." in shown


def test_nothing_ran() -> None:
    shown = shown_of(replace(FINE, equal=None, kernels=0, compared=0), "model.py", 80)
    assert "No kernel ran, so nothing was compared." in shown


def test_json_has_the_steps() -> None:
    found = json.loads(render(AccuracyDocument("model.py", TRAINED, "/work")))
    step = found["steps"][8]
    assert [step[name] for name in ("step", "loss_eager", "loss_compiled", "parted", "parameter")] == [
        9, 2.5, 2.75, True, "layers.3.weight",
    ]  # fmt: skip
    assert found["training"]["parted_by"] == "compiler"


@pytest.mark.parametrize("width", WIDTHS)
def test_screen(width: int) -> None:
    assert_golden(f"accuracy-{width}.txt", shown_of(WRONG, "model.py", width))


def test_nothing_wrong() -> None:
    shown = " ".join(shown_of(FINE, "model.py", 80).split())
    assert shown.startswith("EQUAL model.py Nothing is beyond rounding in 14 stored results of 5 kernels")
    assert "So is the whole result." in shown


def test_what_is_not_compared_is_never_equal() -> None:
    found = replace(FINE, equal=None, not_compared=WRONG.not_compared, result="not_compared")
    shown = " ".join(shown_of(found, "model.py", 80).split())
    assert shown.startswith("NOT ALL COMPARED")
    assert "The whole result was not compared." in shown


def test_json_has_the_names_of_the_schema() -> None:
    found = json.loads(render(AccuracyDocument("model.py", WRONG, "/work")))
    assert found["equal"] is False
    first = found["culprits"][0]
    assert (first["line"], first["ops"], first["error"], first["against"]) == (14, ["aten.relu"], 1.0, "float64")
    assert found["culprits"][1]["error"] is None
    assert found["first_nonfinite"]["in_eager"] is True
    assert found["path"][1] == {"name": "extern_kernels.mm", "line": None, "error": None}


def test_foreign_text_cannot_control_the_terminal() -> None:
    hostile = replace(RELU, file=f"/{UNSEEN}.py", source=UNSEEN, name=UNSEEN)
    shown = shown_of(replace(WRONG, culprits=(hostile,)), UNSEEN, 80)
    assert not any(letter in shown for letter in UNSEEN if not letter.isprintable())

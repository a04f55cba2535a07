"""Screens and JSON of `ctrace kernels apply`, `tune` and `wrap`."""

import json
from pathlib import Path

import jsonschema
import pytest
from msgspec.structs import replace

from ctrace.inspector.features.workshop.package_children import in_file
from ctrace.inspector.features.workshop.package_model import (
    AppliedPackage,
    ApplyDocument,
    CheckDocument,
    CheckedPackage,
    Compared,
    Element,
    ExpectedPlace,
    KernelConfiguration,
    PackageTuning,
    RegionCheck,
    SizeClass,
    Sizes,
    Times,
    TriedConfiguration,
    TunedConfigurations,
    TuneDocument,
    TunedPackage,
)
from ctrace.inspector.features.workshop.triton_op_model import (
    OperatorCheck,
    OperatorLimit,
    Wrapped,
    WrapResult,
)
from ctrace.reports.json.printer import render
from ctrace.reports.terminal.kernel_files_screen import apply_screen, tune_screen, wrap_screen
from ctrace.reports.wording.kernel_packages import applied_line, between, tolerance
from tests.support.golden import WIDTHS, assert_golden, drawn
from tests.support.places import ROOT
from tests.support.poison import UNSEEN

PLACES = (
    ExpectedPlace("0/0", "inference", "model.py:12", "ejected::softmax_0", applied=True),
    ExpectedPlace(
        "0/0", "inference", "model.py:14", "ejected::softmax_0", applied=True, operator_called="torch cannot trace it"
    ),
)
RIGHT = AppliedPackage(
    device="NVIDIA H100 80GB HBM3",
    is_gpu=True,
    places=PLACES,
    regions=tuple(RegionCheck(index, "gpu", equal=True, largest=3e-7) for index in range(2)),
    compared=(
        Compared("base", "compiled", equal=True, largest=6e-7),
        Compared("base", "eager", equal=True, largest=4e-6),
    ),
    model=Times(1.31e-3, 1.27e-3, "faster"),
    kernel=Times(14.9e-6, 11.2e-6),
)
ELEMENT = Element("the output (div)", (31, 59), "0.0161", "nan", 30, 1800)
WRONG = replace(
    RIGHT,
    regions=(RegionCheck(0, "gpu", equal=False, largest=None, wrong=ELEMENT),),
    compared=(Compared("base", "compiled", equal=False, largest=None, wrong=replace(ELEMENT, tensor="the result")),),
    model=None,
    kernel=None,
    not_measured="the results differ, so no time means anything",
)
MISFIT = AppliedPackage(
    device="cpu",
    is_gpu=False,
    places=(
        ExpectedPlace(
            "0/0", "inference", "model.py:12", "ejected::softmax_0", applied=False, why="mul is aten.mul of x"
        ),
    ),
    compared=(Compared("base", "compiled", equal=True, largest=0.0),),
    not_measured="the package was applied nowhere",
    notes=("a note",),
)
CONFIGURATIONS = (KernelConfiguration({"XBLOCK": 1}, 1, 1), KernelConfiguration({"XBLOCK": 4}, 8, 2))
TUNED = PackageTuning(
    "NVIDIA H100 80GB HBM3",
    is_timed=True,
    kernels=(
        TunedConfigurations(
            "softmax_0_kernel",
            (
                SizeClass(
                    "as captured",
                    "n=4096",
                    (
                        TriedConfiguration(CONFIGURATIONS[0], 64, 0, 0, 0.5, "registers, blocks", 14.9e-6, equal=True),
                        TriedConfiguration(CONFIGURATIONS[1], 32, 2, 4096, 1.0, "threads", 11.2e-6, equal=True),
                        TriedConfiguration(KernelConfiguration({"XBLOCK": 64}, 4, 1), failed="out of shared memory"),
                    ),
                    CONFIGURATIONS[1],
                ),
            ),
            CONFIGURATIONS[0],
            CONFIGURATIONS[:1],
        ),
    ),
)
MADE = WrapResult(
    Wrapped(
        name="zoo::softmax",
        function="softmax",
        kernel="softmax_kernel",
        file="zoo.py",
        line=25,
        mutates=(),
        written=("out_ptr",),
        written_source="source",
        returns="Tensor",
        fake="the function without its launches",
        cpu="interpreter",
        flops=None,
        calls=("def softmax(...): ...", "from softmax_op import softmax"),
        notes=("a note",),
        source="import torch\n",
    ),
    (
        OperatorLimit("torch takes one @triton.autotune per kernel", applies=False),
        OperatorLimit("no pre_hook", applies=True),
    ),
    (
        OperatorCheck("torch.library.opcheck", True),
        OperatorCheck("the operator", None, "not run"),
        OperatorCheck("equal", False, "0.5"),
    ),
)


def applied(
    found: AppliedPackage, *diffs: str, target: str = "model.py", package: str = "ops/softmax_0"
) -> ApplyDocument:
    return ApplyDocument(target=target, package=package, summary=applied_line(found), of=found, diffs=diffs)


def tuned(found: PackageTuning, folder: str = "ops/softmax_0", note: str = "a note") -> TuneDocument:
    return TuneDocument((TunedPackage(folder, found, True, (note,)),))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("name", "found"), [("right", RIGHT), ("wrong", WRONG), ("misfit", MISFIT)])
def test_apply_screen(name: str, found: AppliedPackage, width: int):
    assert_golden(f"kernels-apply-{name}-{width}.txt", drawn(apply_screen(applied(found)), width))


@pytest.mark.parametrize("width", WIDTHS)
def test_tune_screen(width: int):
    assert_golden(f"kernels-tune-{width}.txt", drawn(tune_screen(tuned(TUNED), width), width))


@pytest.mark.parametrize("width", WIDTHS)
def test_wrap_screen(width: int):
    assert_golden(f"kernels-wrap-{width}.txt", drawn(wrap_screen(MADE), width))


def test_noise_is_no_gain():
    quiet = replace(RIGHT, model=Times(1.31e-3, 1.27e-3, "no_difference"))
    assert applied_line(quiet).endswith("1.27 ms (within the noise)")


def test_rounds_that_decide_nothing_are_no_time_of_the_model():
    """On a busy machine, a call of 0.1 ms had medians of 29.6 and 16.1 ms."""
    noisy = replace(RIGHT, model=Times(29.6e-3, 16.1e-3, "undecided"))
    assert applied_line(noisy).endswith("model not measured: its rounds differ too much")
    assert "--rounds" in drawn(apply_screen(applied(noisy)), 100)


def test_the_answer_in_one_line():
    assert applied_line(RIGHT) == (
        "applied 2 of 2 places, equal within 1e-6, kernel 14.9 -> 11.2 us (0.75 times as long), "
        "model 1.31 -> 1.27 ms (1.03x faster)"
    )
    slow = replace(RIGHT, model=Times(245e-6, 361e-6, "slower"))
    assert applied_line(slow).endswith("model 245 -> 361 us (1.47x slower)")
    assert applied_line(WRONG) == "applied 2 of 2 places, NOT EQUAL, times not measured"
    assert applied_line(MISFIT) == "applied 0 of 1 place, nothing to compare, times not measured"


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        (2.0, 1.0, "2 -> 1 s (0.50 times as long)"),
        (1.5e-3, 9e-4, "1.5 -> 0.9 ms (0.60 times as long)"),
        (1e-6, 0.0, "1 -> 0 us"),
    ],
)
def test_durations_share_a_unit(before: float, after: float, text: str):
    assert between(Times(before, after)) == text


def test_with_diffs_the_screen_is_the_answer_and_the_diffs():
    shown = drawn(apply_screen(applied(RIGHT, "# 1. install", "# 2. call")), 100)
    assert "# 1. install\n" in shown
    assert "Places" not in shown
    assert "Places" in drawn(apply_screen(applied(WRONG, "# 1. install")), 100)


@pytest.mark.parametrize(("largest", "text"), [(None, "0"), (0.0, "0"), (6e-7, "1e-6"), (1e-6, "1e-6"), (3.0, "3e+00")])
def test_differences_are_rounded_up(largest: float | None, text: str):
    assert tolerance(largest) == text


def test_apply_json_has_the_fixed_names():
    found = json.loads(render(applied(RIGHT)))
    assert (
        found["places"][0] | {"graph": "0/0", "line": "model.py:12", "applied": True, "why": None} == found["places"][0]
    )
    assert (found["equal"], found["before"], found["after"]) == (True, 1.31e-3, 1.27e-3)
    assert found["largest_difference"] == 6e-7
    found = json.loads(render(applied(WRONG)))
    assert (found["equal"], found["before"], found["first_difference"]["at"]) == (False, None, [31, 59])
    assert found["first_difference"]["found"] is None


def test_json_says_what_compiled_code_launches():
    found = json.loads(render(applied(RIGHT)))
    seen = [(each["launch"], each["why_operator"]) for each in found["places"]]
    assert seen == [("direct", None), ("operator", "torch cannot trace it")]
    found = json.loads(render(applied(MISFIT)))
    assert [(each["launch"], each["why_operator"]) for each in found["places"]] == [(None, None)]


CHECKED = CheckedPackage(
    "cpu", (Sizes("ejected::relu", "n=8", "gpu", equal=True, largest=1e-8),), {"relu": {"ptx": "ret;"}}
)


@pytest.mark.parametrize(
    ("title", "text"),
    [
        *(("apply DIR TARGET", render(applied(each, "diff"))) for each in (RIGHT, WRONG, MISFIT)),
        ("tune DIR", render(tuned(TUNED))),
        ("edit DIR --once", render(CheckDocument("ops", CHECKED))),
        ("edit DIR --once", render(CheckDocument("ops", CheckedPackage("cpu", ()), "kernel.py, line 1"))),
        ("wrap FILE:KERNEL", render(MADE)),
    ],
)
def test_json_fits_the_schema(title: str, text: str):
    schema = json.loads((ROOT / "reports" / "schemas" / "kernels.json").read_text())
    (form,) = (each for each in schema["anyOf"] if each.get("title") == f"ctrace kernels {title} --json")
    own = {**form, "$defs": schema["$defs"]}
    error = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(own).iter_errors(json.loads(text)))
    assert error is None, error


def test_tune_and_wrap_json():
    (package,) = json.loads(render(tuned(TUNED)))["packages"]
    assert package["kernels"][0]["sizes"][0]["best"] == {"blocks": {"XBLOCK": 4}, "num_warps": 8, "num_stages": 2}
    made = json.loads(render(MADE))
    assert (made["flops_per_element"], made["checks"][1]["passed"]) == (None, None)


def test_foreign_text_is_shown_escaped():
    places = (ExpectedPlace(UNSEEN, UNSEEN, UNSEEN, UNSEEN, applied=False, why=UNSEEN),)
    hostile = replace(WRONG, places=places, device=UNSEEN, notes=(UNSEEN,), not_measured=UNSEEN)
    text = drawn(apply_screen(applied(hostile, f"+{UNSEEN}", target=UNSEEN, package=UNSEEN)), 80)
    text += drawn(tune_screen(tuned(replace(TUNED, device=UNSEEN), UNSEEN, UNSEEN), 80), 80)
    text += drawn(wrap_screen(replace(MADE, checks=(OperatorCheck(UNSEEN, None, UNSEEN),))), 80)
    assert "\x1b" not in text.replace("\n", "")


def test_a_wrapped_kernel_without_checks_says_so():
    text = drawn(wrap_screen(replace(MADE, checks=())), 80)
    assert text.startswith("WRAPPED, NOT CHECKED")
    assert "none: the model was not run" in text


def test_the_import_names_the_file_that_the_operator_is_written_to():
    made = replace(
        MADE.wrapped, function="add_relu", calls=("def add_relu(...): ...", "from add_relu_op import add_relu")
    )
    found = in_file(replace(MADE, wrapped=made), Path("ops/mine.py"))
    assert found.wrapped.calls == ("def add_relu(...): ...", "from mine import add_relu")


def test_the_further_lines_of_what_has_a_sign_begin_below_its_first():
    made = replace(
        MADE,
        limits=(OperatorLimit("of @triton.autotune, " * 6, applies=True),),
        checks=(OperatorCheck("it holds " * 12, True),),
    )
    text = drawn(wrap_screen(made), 80).splitlines()
    for sign in "!✓":
        at = next(number for number, line in enumerate(text) if line.startswith(f"  {sign} "))
        assert text[at + 1].startswith("    ")
        assert text[at + 1][4] != " "
    long = replace(RIGHT, places=(replace(RIGHT.places[0], operator="ejected::" + "softmax_" * 9),))
    text = drawn(apply_screen(applied(long)), 80).splitlines()
    at = next(number for number, line in enumerate(text) if "model.py:12" in line)
    assert text[at + 1].startswith("    ejected::softmax_")

"""The screen and JSON of `ctrace fix`, and the text of an issue."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from ctrace.inspector.facts.diagnosis import Counts, Effect, Finding, RootCause, RootKind, Suggestion, Symptom
from ctrace.inspector.facts.session import Session
from ctrace.inspector.facts.trial import NewText
from ctrace.inspector.features.fix.repairs.repair_result import (
    Combined,
    CombinedStep,
    Fixes,
    ProofCheck,
    ProofOutcome,
    TriedRepair,
)
from ctrace.reports.json.printer import render
from ctrace.reports.reproducer import library_findings, render_issues
from ctrace.reports.terminal.fix_screen import answer, fix_screen
from tests.support.golden import WIDTHS, assert_golden, drawn
from tests.support.sessions import CWD, ENVIRONMENT, MODEL

PATCH = """\
--- a/model.py
+++ b/model.py
@@ -9,4 +9,3 @@
     def forward(self, x):
-        if x.sum() > 0:
-            x = x * 2
+        x = torch.where(x.sum() > 0, x * 2, x)
         return slow(x)
"""
LIBRARY = "/usr/lib/python3/site-packages/kit/mask.py"
PASSED = tuple(ProofCheck(name, True, "the same in 44 eager calls") for name in ("finding_gone", "outputs_equal"))


def cause(id_: str, kind: RootKind, title: str, line: int, file: str = MODEL) -> RootCause:
    return RootCause(id_, kind, title, file, line, "Net.forward", (Symptom(Finding.BREAK),), source="x")


BRANCH = cause("tensor_branch-1", RootKind.TENSOR_BRANCH, "A branch on a tensor's value: `x.sum() > 0`", 10)
PRINT = cause("output-1", RootKind.OUTPUT, 'A print in compiled code: `print("mean", x.mean())`', 14)
NUMBER = cause("tensor_value-1", RootKind.TENSOR_VALUE, "A tensor's value as a Python number: `n.item()`", 20)
OTHER = cause("unsupported_call-1", RootKind.UNSUPPORTED_CALL, "A call that Dynamo cannot trace: `kit.go(x)`", 30)
MASK = cause("tensor_branch-2", RootKind.TENSOR_BRANCH, "A branch on a tensor's value: `mask.all()`", 77, LIBRARY)
BEFORE = Counts(42, 3, 1, 61.0)


def outcome(after: Counts, *failed: ProofCheck, note: str = "") -> ProofOutcome:
    return ProofOutcome((*PASSED, *failed), Effect(BEFORE, after), note)


FILES = (NewText(MODEL, "after\n"),)
SELECT = TriedRepair(
    BRANCH.id,
    (BRANCH.id,),
    "tensor_branch",
    "source",
    "Replace the branch on `x.sum() > 0` by torch.where.",
    outcome(Counts(17, 2, 1, 80.0)),
    FILES,
    PATCH,
)
SCALARS = replace(
    SELECT,
    finding=NUMBER.id,
    findings=(NUMBER.id,),
    name="capture_scalar_outputs",
    kind="configuration",
    summary="Keep numbers of tensors in the graph: set capture_scalar_outputs.",
    outcome=outcome(Counts(40, 2, 1, 62.0)),
)
SILENT = replace(
    SELECT,
    finding=PRINT.id,
    findings=(PRINT.id,),
    name="output_guard",
    summary="Call `print` in eager only.",
    question="May compiled calls leave out what this prints? Eager calls still print it.",
    outcome=outcome(Counts(40, 2, 1, 61.0)),
)
WRONG = replace(
    SELECT,
    finding=OTHER.id,
    findings=(OTHER.id,),
    name="drop_copy",
    summary="Use `x` itself instead of a copy of it.",
    outcome=outcome(
        Counts(40, 2, 1, 61.0),
        ProofCheck("state_equal", False, "eager leaves different state behind with base: changes model.cache"),
    ),
)
IN_LIBRARY = replace(SELECT, finding=MASK.id, findings=(MASK.id,), library="kit 1.2", summary="Use torch.where.")
TOGETHER = Combined(
    (
        CombinedStep("tensor_branch", SELECT.summary, Counts(17, 2, 1, 80.0)),
        CombinedStep("capture_scalar_outputs", SCALARS.summary, Counts(4, 1, 1, 97.0)),
    ),
    ProofOutcome(PASSED, Effect(BEFORE, Counts(4, 1, 1, 97.0)), "compiled results compared with built kernels"),
    FILES,
    PATCH,
    findings=(BRANCH.id, NUMBER.id),
)
FIXES = Fixes(
    Session(environment=ENVIRONMENT),
    (BRANCH, NUMBER, PRINT, OTHER, MASK),
    repairs=(SELECT, SCALARS, SILENT, IN_LIBRARY, WRONG),
    combined=TOGETHER,
    problems=(f"{CWD}/kernels.py is not changed: it is not in UTF-8",),
    seconds=41.5,
)
UNSTABLE = Fixes(
    Session(environment=ENVIRONMENT),
    (BRANCH,),
    unstable="two eager runs with the same seeds differ with base: the result has different values",
)
SPENT = Fixes(
    Session(environment=ENVIRONMENT), (BRANCH, OTHER), repairs=(WRONG,), untried=3, budget_spent=True, seconds=120.0
)
HOSTILE = replace(FIXES, repairs=(replace(WRONG, summary="\x1b[31mred\u202e ::error::"),), combined=None)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    ("name", "fixes"),
    [("proved", FIXES), ("unstable", UNSTABLE), ("budget", SPENT), ("none", replace(UNSTABLE, findings=()))],
)
def test_screen(name: str, fixes: Fixes, width: int):
    assert_golden(f"fix-{name}-{width}.txt", drawn(fix_screen(fixes, width, target="model.py"), width))


def test_a_patch_that_only_saves_does_not_deny_what_it_saves():
    saving = replace(TOGETHER, findings=())
    first = answer(
        replace(
            FIXES, findings=(PRINT,), repairs=(replace(SCALARS, finding=PRINT.id, findings=()), SILENT), combined=saving
        )
    )
    assert first == (
        "No finding is repaired completely, but what is proved saves something: graphs 42 → 4, graph breaks 3 → 1, "
        "ops in graphs 61% → 97%; 1 finding if you answer a question. Graphs: 42 → 17 → 4. Nothing on disk has changed."
    )


def test_a_repair_that_does_not_go_with_the_others_is_not_a_librarys():
    left = replace(FIXES, findings=(BRANCH, NUMBER), combined=replace(TOGETHER, findings=(BRANCH.id,)))
    assert "; 1 more by a repair that is not in this patch." in answer(left)


def test_a_finding_that_was_left_out_is_not_called_unprovable():
    advice = Suggestion("model.py:14: call `print` in eager.", (PRINT.id,), True, Effect(BEFORE, BEFORE))
    fixes = replace(SPENT, findings=(PRINT, OTHER), advice=(advice,), not_asked=(PRINT.id,), budget_spent=False)
    screen = drawn(fix_screen(fixes, 80, target="model.py"), 80)
    assert "Not tried: --only and --finding leave them out" in screen
    assert "No patch that can be proved" not in screen
    assert screen.count("A print in compiled code") == 1


def test_advice_that_is_the_repair_is_said_once():
    advice = Suggestion("model.py:30: use `x` itself instead of a copy of it.", (OTHER.id,))
    shown = drawn(fix_screen(replace(SPENT, findings=(OTHER,), advice=(advice,)), 80, target="model.py"), 80)
    assert shown.count("itself instead of a copy of it") == 1
    assert "drop_copy" in shown


def test_hostile_text_is_harmless():
    shown = drawn(fix_screen(HOSTILE, 80, target="model.py"), 80)
    assert "\x1b" not in shown
    assert "\u202e" not in shown


def data(fixes: Fixes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(render(fixes))
    return found


def test_json_has_the_fixed_names():
    found = data(FIXES)
    assert found["findings"][0]["id"] == BRANCH.id
    repair = found["repairs"][0]
    assert {"finding", "name", "kind", "proved", "why", "checks", "effect", "patch"} <= set(repair)
    assert repair["proved"] is True
    assert repair["why"] is None
    assert repair["checks"][0]["name"] == "finding_gone"
    assert repair["checks"][0]["passed"] is True
    assert repair["effect"] == {"graphs": [42, 17], "breaks": [3, 2], "recompiles": [1, 1], "coverage": [61.0, 80.0]}
    assert found["combined"]["effect"]["graphs"] == [42, 4]
    assert found["combined"]["patch"] == PATCH
    assert [each["name"] for each in found["combined"]["repairs"]] == ["tensor_branch", "capture_scalar_outputs"]


def test_an_unproved_repair_says_why():
    found = data(FIXES)["repairs"][-1]
    assert found["proved"] is False
    assert found["why"].startswith("eager leaves different state behind")


def test_nothing_tried_is_nothing_proved():
    assert not ProofOutcome(()).proved
    assert data(UNSTABLE)["combined"] is None


def test_issue_of_a_library():
    text = render_issues(FIXES, {})
    assert text.startswith("# torch.compile: A branch on a tensor's value: `mask.all()`")
    assert "```diff" in text
    assert BRANCH.title not in text
    assert render_issues(UNSTABLE, {}) == "No finding is in a package that you do not own.\n"


def test_issue_with_the_program_that_shows_it():
    library = library_findings(FIXES)
    text = render_issues(FIXES, {library[0].id: "import torch\n```\n"})
    assert "This program shows it:\n\n```python\nimport torch\n'''\n```\n" in text

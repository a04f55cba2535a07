"""A recompilation that follows from a break is its consequence in every report of a check; `--json` has both."""

import json
from datetime import datetime

import pytest

from ctrace.inspector.facts.findings import Cause, CauseKind, Recompile
from ctrace.inspector.facts.sites import SiteKind
from ctrace.inspector.features.check.check_model import CheckOutcome
from ctrace.inspector.source.source_names import RESULT
from ctrace.reports.gate.annotations import render_annotations
from ctrace.reports.gate.gate_markdown import render_table
from ctrace.reports.gate.gate_screen import check_screen
from ctrace.reports.gate.json import render_check_json
from ctrace.reports.gate.junit import render_junit
from ctrace.reports.gate.sarif import render_sarif
from tests.support.gated import ROOT, at_text, outcome_of, seen_of, session_of, state
from tests.support.golden import drawn

FILE = f"{ROOT}/model.py"
NUMBER = "def forward(x, n):\n    scale = x.max().item()\n    return x * scale\n"
PRINT = "def forward(x, n):\n    print(x.max().item())\n    return x * n\n"
OF_RESULT = Cause(CauseKind.BREAK_RESULT, RESULT, "1.5", "2.5", 2, file=FILE)
OF_SIZE = Cause(CauseKind.SIZE, "x.size(0)", "4", "8", None)


def _outcome(source: str, text: str, gb: str, cause: Cause) -> CheckOutcome:
    """Check a model whose line 2 breaks, and that recompiles in a repeated call."""
    again = Recompile("1/1", "forward", FILE, 1, False, (cause,), call=1)
    breaks = [at_text(source, text, gb=(gb,), expression=text)]
    return outcome_of(seen_of(state(session_of(source, breaks, recompiles=(again,)))))


FOLLOWING = [
    pytest.param(NUMBER, "x.max().item()", "GB0124", id="item"),
    pytest.param(PRINT, "print(x.max().item())", "GB0059", id="print"),
]


@pytest.mark.parametrize(("source", "text", "gb"), FOLLOWING)
def test_the_recompilation_names_the_break_that_it_follows_from(source: str, text: str, gb: str) -> None:
    (checked,) = _outcome(source, text, gb, OF_RESULT).checked
    broken, again = (each.site for each in checked.findings if each.site)
    assert (broken.key.kind, again.key.kind) == (SiteKind.BREAK, SiteKind.RECOMPILE)
    assert (broken.follows, again.follows) == (None, broken.key)


@pytest.mark.parametrize(("source", "text", "gb"), FOLLOWING)
def test_reports_show_one_finding_and_what_comes_with_it(source: str, text: str, gb: str) -> None:
    outcome = _outcome(source, text, gb, OF_RESULT)
    screen = drawn(check_screen(outcome, 140), 140)
    assert screen.count("\n 1. ") == 1
    assert "\n 2. " not in screen
    assert "With it: recompilation: " in screen
    annotations = render_annotations(outcome)
    assert annotations.count("::error ") == 1
    assert "with it%3A " in annotations or "with it: " in annotations
    assert len(json.loads(render_sarif(outcome))["runs"][0]["results"]) == 1
    assert render_junit(outcome, datetime(2026, 1, 1)).count("with it: ") == 1
    assert render_table(outcome).count("with it: ") == 1
    (job,) = json.loads(render_check_json(outcome))["jobs"]
    assert len(job["findings"]) == 2


def test_a_recompilation_of_its_own_cause_stands_alone() -> None:
    outcome = _outcome(NUMBER, "x.max().item()", "GB0124", OF_SIZE)
    assert "With it: " not in drawn(check_screen(outcome, 140), 140)
    assert render_annotations(outcome).count("::error ") == 2

"""Every report qualifies its verdict if Inductor's guards were not checked."""

import json
from collections.abc import Callable
from datetime import datetime

import pytest
from msgspec.structs import replace

from ctrace.inspector.features.check.check_model import CheckOutcome
from ctrace.reports.gate.annotations import render_annotations
from ctrace.reports.gate.failuretext import failure_text
from ctrace.reports.gate.gate_markdown import render_table
from ctrace.reports.gate.gate_screen import check_screen
from ctrace.reports.gate.json import render_check_json
from ctrace.reports.gate.junit import render_junit
from ctrace.reports.gate.sarif import render_sarif
from tests.support import outcomes
from tests.support.golden import drawn

NOTE = "guards that Inductor adds to graphs with symbolic sizes were left out, as asked: none can be missing"
WHOLE = outcomes.outcome(outcomes.holding("models/a.py"))
LESS = outcomes.outcome(outcomes.holding("models/a.py"), inductor_guards=False, notes=(NOTE,))


def _screen(outcome: CheckOutcome) -> str:
    return drawn(check_screen(outcome, 100), 100)


REPORTS: dict[str, tuple[Callable[[CheckOutcome], str], str]] = {
    "screen": (_screen, "HOLDS (Inductor's guards not checked)  The model passes."),
    "markdown": (render_table, "### ctrace check: **holds (Inductor's guards not checked)**"),
    "junit": (
        lambda outcome: render_junit(outcome, datetime(2026, 1, 1)),
        '<property name="verdict" value="holds (Inductor\'s guards not checked)"',
    ),
    "sarif": (render_sarif, '"exitCodeDescription": "holds (Inductor\'s guards not checked)"'),
    "json": (render_check_json, '"inductor_guards": false'),
    "annotations": (render_annotations, f"::notice title=ctrace check::{NOTE}"),
}


@pytest.mark.parametrize("name", REPORTS)
def test_the_qualification_is_beside_the_verdict(name: str) -> None:
    render, text = REPORTS[name]
    assert text in render(LESS)
    assert text not in render(WHOLE)
    assert "not checked" not in render(WHOLE)


def test_names_of_the_json_stay() -> None:
    data = json.loads(render_check_json(LESS))
    assert (data["verdict"], data["exit"], data["inductor_guards"], data["notes"]) == ("holds", 0, False, [NOTE])


def test_a_failing_verdict_is_qualified_too() -> None:
    outcome = replace(outcomes.WORSE, inductor_guards=False)
    assert _screen(outcome).startswith("WORSE (Inductor's guards not checked)  ")
    assert failure_text(outcome, 100, is_by_lock=True).startswith("WORSE (Inductor's guards not checked)  ")


def test_findings_new_to_an_old_lock_do_not_blame_the_model() -> None:
    finding = replace(outcomes.new_site(outcomes.RECOMPILE), by_inductor=True)
    screen = _screen(outcomes.only(finding))
    assert screen.startswith(
        "WORSE  More findings than in the lock, perhaps only because Inductor's guards are checked"
    )
    both = outcomes.only(finding, outcomes.new_site(outcomes.BRANCH))
    assert _screen(both).startswith("WORSE  The model got worse.")

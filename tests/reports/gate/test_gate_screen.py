"""`ctrace check` on screen."""

import re

import pytest
from hypothesis import given, settings
from msgspec import structs
from msgspec.structs import replace

from ctrace.inspector.facts.diagnosis import SuggestedRepair
from ctrace.inspector.features.check.check_model import CheckedJob, CheckOutcome, FindingKind, GateFinding, JobKey, Lock
from ctrace.inspector.features.check.policy_model import CheckPolicy, Count
from ctrace.reports.gate.gate_screen import check_screen
from tests.reports.gate.texts import ANY, full_of
from tests.support import outcomes
from tests.support.golden import WIDTHS, assert_golden, drawn
from tests.support.sampling import examples


def _screen(outcome: CheckOutcome, width: int = 80, *, colors: bool = False) -> str:
    return drawn(check_screen(outcome, width), width, colors=colors)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", outcomes.ALL)
def test_screen(name: str, width: int) -> None:
    assert_golden(f"check-{name}-{width}.txt", _screen(outcomes.ALL[name], width))


@pytest.mark.parametrize("width", [40, *WIDTHS])
@pytest.mark.parametrize("name", outcomes.ALL)
def test_no_line_is_wider_than_the_screen_or_ends_in_spaces(name: str, width: int) -> None:
    for line in _screen(outcomes.ALL[name], width).splitlines():
        assert len(line.replace(r"\x3a:", "::")) <= width  # a command's colon is escaped once lines are folded
        assert line == line.rstrip()


@given(ANY)
@settings(max_examples=examples(40), deadline=None)
def test_foreign_text_cannot_control_the_terminal(text: str) -> None:
    screen = _screen(full_of(text))
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]", screen)


def test_markup_is_text() -> None:
    assert "[red]x[/]" in _screen(outcomes.HOSTILE)


def test_colors_are_for_terminals() -> None:
    assert "\x1b[" in _screen(outcomes.WORSE, colors=True)
    assert "\x1b" not in _screen(outcomes.WORSE)


def test_columns_are_underlined() -> None:
    lines = _screen(outcomes.WORSE).splitlines()
    at = next(number for number, line in enumerate(lines) if "if is_pad.any():" in line)
    assert lines[at].index("is_pad.any()") == lines[at + 1].index("^^^^^^^^^^^^")
    assert lines[at + 1].count("^") == len("is_pad.any()")


def test_a_site_of_two_jobs_is_explained_once() -> None:
    screen = _screen(outcomes.WORSE)
    assert screen.count("Python branches on") == 1
    known = "1. new graph break (+1 GB0170 models/mask.py::Mask.forward) same as in models/mask.py"
    assert known in " ".join(screen.split())


def test_every_finding_is_shown() -> None:
    screen = re.sub(r"\s+", " ", _screen(outcomes.FAILED))
    for one in outcomes.FAILED.checked:
        assert all(each.what in screen for each in one.findings)


class TestJobs:
    def test_with_few_jobs_all_are_in_the_table(self) -> None:
        few = structs.replace(outcomes.MANY, checked=outcomes.MANY.checked[-20:])
        assert "models/m24.py" in _screen(few)
        assert "that hold" not in _screen(few)

    def test_all_jobs_are_in_the_table(self) -> None:
        assert "models/m24.py" in _screen(outcomes.MANY)

    def test_with_many_jobs_those_that_hold_are_counted(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("ctrace.reports.gate.gate_screen.MOST_JOBS", 20)
        screen = _screen(outcomes.MANY)
        assert "models/m24.py" not in screen
        assert "  and 25 jobs that pass\n" in screen

    def test_the_distinct_part_of_a_job_name_is_never_cut(self) -> None:
        assert "…/mask.py · wide · h100" in _screen(outcomes.WORSE)

    def test_unmeasured_values_are_not_zero(self) -> None:
        row = next(line for line in _screen(outcomes.WORSE).splitlines() if line.startswith(" models/text.py   "))
        assert row.split() == ["models/text.py", "1", "→", "3", "1", "1", "–", "3.1", "s", "worse"]


class TestNext:
    def test_updating_the_lock_is_suggested_where_it_helps(self) -> None:
        assert " ctrace check --update  if this is intended" in _screen(outcomes.WORSE)
        assert "--only-improve" in _screen(outcomes.BETTER)
        assert "--update" not in _screen(outcomes.HOLDS)

    def test_the_command_repeats_the_options(self) -> None:
        asked = structs.replace(outcomes.WORSE, command="ctrace check models/mask.py --train")
        assert " ctrace check models/mask.py --train --update  if this is intended" in _screen(asked)

    def test_without_a_policy_there_is_no_limit_to_raise(self) -> None:
        beyond = GateFinding(FindingKind.LIMIT, "graph breaks", count=Count.BREAKS, was=0, now=1)
        alone = CheckOutcome(CheckPolicy(), Lock(), (CheckedJob(JobKey("models/mask.py"), findings=(beyond,)),))
        assert "ctrace.yaml" not in _screen(alone)
        assert " ctrace check --update  if this is intended" in _screen(alone)

    def test_an_update_with_doubtful_results_is_not_suggested(self) -> None:
        assert "--update" not in _screen(outcomes.UNTRUSTED)
        assert "--update" not in _screen(outcomes.FAILED)

    def test_runs_of_failing_jobs_are_named(self) -> None:
        assert " ctrace breaks 20260101-120000-mask  details of models/mask.py\n" in _screen(outcomes.WORSE)
        assert " ctrace explain 20260101-120002-b  details of models/b.py\n" in _screen(outcomes.FAILED)


def test_models_that_cannot_be_run_have_no_table() -> None:
    wrong = CheckedJob(
        JobKey("a.py"), findings=(GateFinding(FindingKind.WRONG, "a.py, line 1: invalid syntax", "correct it"),)
    )
    shown = _screen(outcomes.outcome(wrong))
    assert "a.py, line 1: invalid syntax" in shown
    assert "Jobs" not in shown
    assert "Jobs" in _screen(outcomes.outcome(wrong, CheckedJob(JobKey("b.py"))))


def test_that_results_were_reused_is_no_warning() -> None:
    note = "19 of 20 models unchanged since the last check: results reused; --no-cache checks them again"
    text = _screen(replace(outcomes.HOLDS, notes=(note, "a warning"), reused=note), 120)
    assert f"\n {note}" in text
    assert "! a warning" in text


def test_a_search_for_repairs_is_offered_once_and_only_for_jobs_of_a_policy() -> None:
    found = outcomes.only(outcomes.new_site(outcomes.BRANCH))
    assert "ctrace check --suggest" in _screen(found)
    searched = replace(outcomes.new_site(outcomes.BRANCH), suggestion=SuggestedRepair(why="none is known"))
    assert "--suggest" not in _screen(outcomes.only(searched))
    assert "--suggest" not in _screen(outcomes.only(outcomes.new_site(outcomes.BRANCH), name="tests/test_a.py::test_a"))

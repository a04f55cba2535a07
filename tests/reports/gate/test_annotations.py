"""The result of a check as GitHub workflow commands."""

import re

import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from ctrace.inspector.facts.findings import Cost
from ctrace.inspector.features.check.check_model import CheckOutcome, FindingKind, GateFinding
from ctrace.reports import format as fmt
from ctrace.reports.gate.annotations import MOST, render_annotations
from tests.reports.gate.texts import ANY, full_of
from tests.support import outcomes
from tests.support.golden import assert_golden
from tests.support.sampling import examples

Command = tuple[str, dict[str, str], str]


def _read(report: str) -> list[Command]:
    """Parse commands as a runner does: one per line, with properties up to the second pair of colons."""
    found = []
    for line in re.split(r"\r\n|\r|\n", report.removesuffix("\n")) if report else []:
        match = re.fullmatch(r"::(error|notice) (.*?)::(.*)", line)
        assert match, line
        pairs = (each.split("=", 1) for each in match[2].split(","))
        found.append((match[1], {key: _unescaped(value) for key, value in pairs}, _unescaped(match[3])))
    return found


def _unescaped(text: str) -> str:
    for code, letter in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        text = text.replace(code, letter)
    return text


def _many(number: int) -> CheckOutcome:
    sites = [
        replace(outcomes.BRANCH, key=replace(outcomes.BRANCH.key, text=f"line {each}"), cost=Cost(each, 1))
        for each in range(number)
    ]
    return outcomes.only(*map(outcomes.new_site, sites))


def test_report() -> None:
    assert_golden("check-worse.annotations.txt", render_annotations(outcomes.WORSE))


def test_a_check_that_holds_says_nothing() -> None:
    assert render_annotations(outcomes.HOLDS) == ""


def test_a_finding_is_at_its_line_and_columns() -> None:
    name, properties, message = _read(render_annotations(outcomes.WORSE))[0]
    place = {key: properties[key] for key in ("file", "line", "endLine", "col", "endColumn")}
    assert name == "error"
    assert place == {"file": "models/mask.py", "line": "14", "endLine": "14", "col": "12", "endColumn": "23"}
    first = "new graph break: `is_pad.any()` (+1 GB0170 models/mask.py::Mask.forward)"
    assert message.splitlines()[0] == first
    assert message.splitlines()[-1] == "Also in 1 more job."


@pytest.mark.parametrize(
    ("number", "shown", "last"), [(MOST, MOST, None), (MOST + 3, MOST, "and 4 more findings: see the log of the step")]
)
def test_commands_that_github_drops_are_counted(number: int, shown: int, last: str | None) -> None:
    commands = _read(render_annotations(_many(number)))
    assert len(commands) == shown
    assert last is None or commands[-1][2] == last


def test_the_costliest_finding_is_first() -> None:
    first = _read(render_annotations(_many(MOST + 3)))[0][2]
    assert f"{MOST + 2} ops now in eager" in first


def test_notes_are_no_warnings() -> None:
    notes = [message for name, _, message in _read(render_annotations(outcomes.WORSE)) if name == "notice"]
    assert notes == list(outcomes.WORSE.notes)


@given(ANY)
@settings(max_examples=examples(80), deadline=None)
def test_any_text_survives(text: str) -> None:
    commands = _read(render_annotations(full_of(text)))
    assert [name for name, _, _ in commands] == ["error"] * 3 + ["notice"]
    assert commands[-1][2] == fmt.plain(text)


@given(ANY.filter(lambda text: "/" not in text and text.strip(".")))
@settings(max_examples=examples(40), deadline=None)
def test_any_file_name_survives(name: str) -> None:
    found = GateFinding(FindingKind.WRONG, "x", file=f"/a/{name}", line=3)
    properties = _read(render_annotations(outcomes.outcome(findings=(found,))))[0][1]
    assert properties["file"] == fmt.plain(f"/a/{name}")

"""Repairs beside the findings of a check, in every report."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ctrace.inspector.facts.diagnosis import Replacement, SuggestedRepair
from ctrace.inspector.facts.trial import NewText
from ctrace.inspector.features.check.check_model import CheckOutcome
from ctrace.inspector.features.fix.repairs.suggest_repairs import replacements
from ctrace.reports.gate.annotations import render_annotations
from ctrace.reports.gate.gate_findings import review_block, suggestion_lines
from ctrace.reports.gate.gate_markdown import render_table
from ctrace.reports.gate.json import render_check_json
from ctrace.reports.gate.sarif import render_sarif
from tests.reports.gate.test_sarif import VALIDATOR
from tests.reports.gate.texts import ANY
from tests.support import outcomes

FILE = f"{outcomes.CWD}/models/mask.py"
BEFORE = "import torch\n\n\ndef f(x):\n    if x.any():\n        return x\n    return -x\n"
AFTER = "import torch\n\n\ndef f(x):\n    return torch.where(x.any(), x, -x)\n"
PROVED = SuggestedRepair(
    "tensor_branch",
    "source",
    "Replace the branch on `x.any()` by torch.where.",
    proved=True,
    command="ctrace fix models/mask.py --apply",
    patch="--- a/models/mask.py\n+++ b/models/mask.py\n",
    replacements=replacements({FILE: BEFORE}, [NewText(FILE, AFTER)]),
)
LINES = st.text("ab`:\n\r", max_size=20)


def suggesting(found: SuggestedRepair) -> CheckOutcome:
    """Make an outcome of one finding with a suggestion."""
    return outcomes.only(replace(outcomes.new_site(outcomes.BRANCH), suggestion=found))


def fixes(found: SuggestedRepair) -> list[dict[str, Any]]:
    """Return the fixes of the only result, after a look at the whole report."""
    report = json.loads(render_sarif(suggesting(found)).encode())
    VALIDATOR.validate(report)
    (result,) = report["runs"][0]["results"]
    listed: list[dict[str, Any]] = result.get("fixes", [])
    return listed


def offset(text: str, line: int, column: int) -> int:
    """Return the offset of a line and a column, both from 1, in a text whose lines end with a line feed."""
    begin = 0
    for _ in range(line - 1):
        begin = text.index("\n", begin) + 1
    assert begin + column - 1 <= len(text)
    return begin + column - 1


def applied(text: str, changes: list[dict[str, Any]]) -> str:
    """Apply replacements of one artifact as the standard says: all regions refer to the text before."""
    for each in reversed(changes):
        region = each["deletedRegion"]
        begin = offset(text, region["startLine"], region["startColumn"])
        end = offset(text, region["endLine"], region["endColumn"])
        text = text[:begin] + each["insertedContent"]["text"] + text[end:]
    return text


def test_a_fix_of_sarif_makes_the_repaired_file():
    (fix,) = fixes(PROVED)
    (change,) = fix["artifactChanges"]
    assert change["artifactLocation"] == {"uri": "models/mask.py", "uriBaseId": "%SRCROOT%"}
    assert applied(BEFORE, change["replacements"]) == AFTER


@given(LINES, LINES)
def test_a_fix_of_sarif_makes_any_repaired_file(before: str, after: str):
    found = replace(PROVED, replacements=replacements({FILE: before}, [NewText(FILE, after)]))
    changes = [each for fix in fixes(found) for each in fix["artifactChanges"]]
    assert bool(changes) == (before != after)
    assert before == after or applied(before, changes[0]["replacements"]) == after


@pytest.mark.parametrize(
    "found",
    [
        SuggestedRepair(why="no repair known"),
        replace(PROVED, question="May it print less?"),
        replace(PROVED, library="einops"),
        replace(PROVED, proved=False, why="eager differs"),
        replace(PROVED, patch="", replacements=(), how="model.eval() before the first call"),
    ],
)
def test_only_what_can_be_applied_as_it_is_is_a_fix(found: SuggestedRepair):
    assert fixes(found) == []
    assert "```" not in render_table(suggesting(found))


def test_a_review_suggests_the_lines():
    assert review_block(PROVED) == (5, 7, "```suggestion\n    return torch.where(x.any(), x, -x)\n```")
    page = render_table(suggesting(PROVED))
    assert "lines 5 to 7 of `models/mask.py`:\n\n```suggestion\n    return torch.where" in page
    assert "```suggestion%0A    return torch.where(x.any(), x, -x)%0A```" in render_annotations(suggesting(PROVED))


def test_a_repair_of_several_places_is_a_patch():
    found = replace(PROVED, replacements=(*PROVED.replacements, Replacement(FILE, 1, 2, "import torch\n", "")))
    assert review_block(found) is None
    assert "```diff\n--- a/models/mask.py\n" in render_table(suggesting(found))


def test_an_insertion_repeats_the_line_before_it():
    found = replace(PROVED, replacements=(Replacement(FILE, 3, 3, "", "x = 1\n", before="import torch\n"),))
    assert review_block(found) == (2, 2, "```suggestion\nimport torch\nx = 1\n```")
    assert review_block(replace(found, replacements=(Replacement(FILE, 1, 1, "", "x = 1\n"),))) is None


@pytest.mark.parametrize("text", ["'''\n```\n::error::x\n'''\n", "x = '\u202e'\n", "::add-mask::x\n"])
def test_text_that_a_report_must_change_is_no_suggestion(text: str):
    found = replace(PROVED, replacements=(Replacement(FILE, 5, 8, "", text),))
    assert review_block(found) is None


def test_a_fence_in_the_code_does_not_end_the_block():
    found = replace(PROVED, replacements=(Replacement(FILE, 5, 6, "x\n", '"""\n```\n"""\n'),))
    block = review_block(found)
    assert block is not None
    assert block[2].startswith("````suggestion\n")
    assert block[2].endswith("\n````")


@given(ANY)
def test_any_text_is_shown_safely(text: str):
    found = SuggestedRepair(
        text, text, text, proved=True, command=text or "-", patch=text, replacements=PROVED.replacements
    )
    found = replace(found, replacements=(Replacement(FILE, 5, 6, text, text),))
    outcome = suggesting(found)
    assert json.loads(render_check_json(outcome).encode())["jobs"]
    for line in (*render_table(outcome).split("\n"), *render_annotations(outcome).split("\n")[1:]):
        assert not line.lstrip().startswith("::")
    fixes(found)


def test_what_each_report_says():
    (first, command) = suggestion_lines(PROVED)
    assert first == "Proved repair: Replace the branch on `x.any()` by torch.where."
    assert command == "`ctrace fix models/mask.py --apply`"
    (line,) = suggestion_lines(SuggestedRepair("tensor_where", "source", "Do it.", why="eager differs"))
    assert line == "No proved repair: tensor_where is unproved, because eager differs"
    asked, _ = suggestion_lines(replace(PROVED, question="May it print less?"))
    assert asked == "Proved, if you agree: Replace the branch on `x.any()` by torch.where. May it print less?"
    data = json.loads(render_check_json(suggesting(PROVED)))["jobs"][0]["findings"][0]["suggestion"]
    assert (data["proved"], data["repair"], data["why"]) == (True, "tensor_branch", None)
    assert data["replacements"][0]["end_line"] == 8

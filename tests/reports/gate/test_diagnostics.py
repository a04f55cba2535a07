"""The result of a check as diagnostics for editors."""

import json
from typing import Any
from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from ctrace.inspector.features.check.check_model import CheckOutcome
from ctrace.reports.gate.diagnostics import render_diagnostics
from ctrace.reports.gate.sarif import render_sarif
from tests.reports.gate.texts import ANY, full_of
from tests.support import outcomes
from tests.support.sampling import examples


def _diagnostics(outcome: CheckOutcome) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(render_diagnostics(outcome))
    assert all(each["uri"].startswith("file:///") for each in found)
    return found


@pytest.mark.parametrize("name", outcomes.ALL)
def test_every_finding_with_a_file_is_there_as_in_sarif(name: str) -> None:
    found = [one for each in _diagnostics(outcomes.ALL[name]) for one in each["diagnostics"]]
    results = json.loads(render_sarif(outcomes.ALL[name]))["runs"][0]["results"]
    placed = [each for each in results if each["locations"] and "suppressions" not in each]
    assert sorted(each["message"] for each in found) == sorted(each["message"]["text"] for each in placed)
    assert sorted(each["code"] for each in found) == sorted(each["ruleId"] for each in placed)


def test_lines_and_columns_count_from_zero_in_utf_16() -> None:
    site = replace(outcomes.BRANCH, line=7, source="    '😀'; if x.sum() > 0:", span=(5, 10))
    ((each,),) = (file["diagnostics"] for file in _diagnostics(outcomes.only(outcomes.new_site(site))))
    assert each["range"] == {"start": {"line": 6, "character": 10}, "end": {"line": 6, "character": 15}}


def test_a_place_without_columns_is_its_whole_line() -> None:
    site = replace(outcomes.BRANCH, line=7, span=None)
    (file,) = _diagnostics(outcomes.only(outcomes.new_site(site)))
    (each,) = file["diagnostics"]
    assert each["range"]["start"] == {"line": 6, "character": 0}
    assert each["range"]["end"]["line"] == 6
    assert each["range"]["end"]["character"] > 10_000


@given(ANY.filter(lambda text: "/" not in text and text.strip(".")))
@settings(max_examples=examples(40), deadline=None)
def test_any_file_name_survives(name: str) -> None:
    (file,) = _diagnostics(outcomes.only(outcomes.new_site(replace(outcomes.BRANCH, file=f"{outcomes.CWD}/{name}"))))
    assert unquote_to_bytes(file["uri"]).endswith(b"/" + name.encode("utf-8", "surrogatepass"))


@given(ANY.filter(str.strip))
@settings(max_examples=examples(40), deadline=None)
def test_any_text_is_json(text: str) -> None:
    _diagnostics(full_of(text))

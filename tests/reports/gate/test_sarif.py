"""The result of a check as SARIF."""

import json
from typing import Any
from urllib.parse import unquote_to_bytes

import jsonschema
import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from ctrace.inspector.facts.sites import Site
from ctrace.inspector.features.check.check_model import CheckOutcome, FindingKind
from ctrace.inspector.version import __version__
from ctrace.reports.gate.sarif import gb_rule, render_sarif
from tests.reports.gate.texts import ANY, full_of
from tests.support import outcomes
from tests.support.golden import assert_golden
from tests.support.places import DATA
from tests.support.sampling import examples

_SCHEMA = json.loads((DATA / "sarif.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(_SCHEMA)


def _run(outcome: CheckOutcome) -> dict[str, Any]:
    report = json.loads(render_sarif(outcome).encode())
    VALIDATOR.validate(report)
    return report["runs"][0]


def _result(site: Site) -> dict[str, Any]:
    return _run(outcomes.only(outcomes.new_site(site)))["results"][0]


def test_report() -> None:
    report = json.loads(render_sarif(outcomes.WORSE).replace(__version__, "0.0.0"))
    rules = report["runs"][0]["tool"]["driver"]["rules"]
    rules[:] = [rule["id"] for rule in rules]  # their texts come from the advice and change with it
    assert_golden("check-worse.sarif", json.dumps(report, indent=1, ensure_ascii=False) + "\n")


@pytest.mark.parametrize("name", outcomes.ALL)
def test_the_schema_holds(name: str) -> None:
    run = _run(outcomes.ALL[name])
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert len(set(rules)) == len(rules)
    assert all(rules[each["ruleIndex"]] == each["ruleId"] for each in run["results"])


@given(ANY.filter(str.strip))
@settings(max_examples=examples(40), deadline=None)
def test_the_schema_holds_for_any_text(text: str) -> None:
    _run(full_of(text))


@given(ANY.filter(lambda text: "/" not in text and text.strip(".")))
@settings(max_examples=examples(40), deadline=None)
def test_any_file_name_survives(name: str) -> None:
    site = _result(replace(outcomes.BRANCH, file=f"{outcomes.CWD}/{name}"))
    uri = site["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert unquote_to_bytes(uri) == name.encode("utf-8", "surrogatepass")


def test_every_kind_of_finding_and_every_reported_gb_id_is_a_rule() -> None:
    rules = [rule["id"] for rule in _run(outcomes.WORSE)["tool"]["driver"]["rules"]]
    assert rules == [*FindingKind, "GB0059", "GB0170"]


def test_a_rule_has_the_advice_for_its_break() -> None:
    rule = gb_rule("GB0170")
    assert rule["shortDescription"]["text"] == "Graph break: a branch on a tensor's value"
    assert "torch.where" in rule["help"]["text"]


def test_an_unknown_gb_id_is_a_rule_too() -> None:
    assert gb_rule("GB9999")["help"]["text"] == "A graph break that this version of ctrace does not know."


def test_a_site_is_at_its_line_and_columns() -> None:
    place = _result(outcomes.BRANCH)["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "models/mask.py", "uriBaseId": "%SRCROOT%"}
    assert place["region"] == {"startLine": 14, "startColumn": 12, "endLine": 14, "endColumn": 24}


@pytest.mark.parametrize(
    ("file", "artifact"),
    [
        ("/home/user/project/a b/ü#?.py", {"uri": "a%20b/%C3%BC%23%3F.py", "uriBaseId": "%SRCROOT%"}),
        ("/home/user/project/c:d.py", {"uri": "c%3Ad.py", "uriBaseId": "%SRCROOT%"}),
        ("/usr/lib/x y.py", {"uri": "file:///usr/lib/x%20y.py"}),
    ],
)
def test_paths_are_uris(file: str, artifact: dict[str, str]) -> None:
    assert (
        _result(replace(outcomes.BRANCH, file=file))["locations"][0]["physicalLocation"]["artifactLocation"] == artifact
    )


def test_a_fingerprint_survives_moves_but_not_changes() -> None:
    was = _result(outcomes.BRANCH)["partialFingerprints"]
    assert _result(replace(outcomes.BRANCH, line=99, times=4))["partialFingerprints"] == was
    changed = replace(outcomes.BRANCH.key, text="if is_pad.all():")
    assert _result(replace(outcomes.BRANCH, key=changed))["partialFingerprints"] != was


def test_a_site_of_two_jobs_is_one_result() -> None:
    results = [each for each in _run(outcomes.WORSE)["results"] if each["ruleId"] == "GB0170"]
    assert [each["properties"]["jobs"] for each in results] == [["models/mask.py", "models/mask.py · wide · h100"]]


def test_allowed_sites_are_suppressed_with_their_reason() -> None:
    results = [each for each in _run(outcomes.WORSE)["results"] if "suppressions" in each]
    assert [each["suppressions"][0]["justification"] for each in results] == ["vendored, upstream issue 12"]
    assert all(each["level"] == "error" for each in _run(outcomes.WORSE)["results"] if each not in results)


@pytest.mark.parametrize(
    ("name", "code", "done"), [("holds", 0, True), ("worse", 1, True), ("wrong", 2, False), ("untrusted", 4, False)]
)
def test_the_invocation_says_how_it_ended(name: str, code: int, done: bool) -> None:
    invocation = _run(outcomes.ALL[name])["invocations"][0]
    assert (invocation["exitCode"], invocation["executionSuccessful"]) == (code, done)


def test_notes_are_notifications() -> None:
    notes = _run(outcomes.WORSE)["invocations"][0]["toolConfigurationNotifications"]
    assert [each["message"]["text"] for each in notes] == list(outcomes.WORSE.notes)

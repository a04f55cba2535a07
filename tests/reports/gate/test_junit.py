"""The result of a check as JUnit XML."""

from datetime import datetime
from xml.etree import ElementTree

import pytest
import xmlschema
from hypothesis import given, settings

from ctrace.inspector.features.check.check_model import CheckOutcome
from ctrace.reports.gate.junit import render_junit
from tests.reports.gate.texts import ANY, full_of
from tests.support import outcomes
from tests.support.golden import assert_golden
from tests.support.places import DATA
from tests.support.sampling import examples

WHEN = datetime(2026, 1, 31, 12, 30, 5)
SCHEMA = xmlschema.XMLSchema(str(DATA / "junit.xsd"))


def _report(outcome: CheckOutcome) -> str:
    return render_junit(outcome, WHEN)


def _cases(outcome: CheckOutcome) -> dict[tuple[str, str], ElementTree.Element]:
    root = ElementTree.fromstring(_report(outcome).encode())
    return {(case.get("classname", ""), case.get("name", "")): case for case in root.iter("testcase")}


def _child(case: ElementTree.Element, tag: str) -> ElementTree.Element:
    child = case.find(tag)
    assert child is not None
    return child


def test_report() -> None:
    assert_golden("check-worse.junit.xml", _report(outcomes.WORSE))


@pytest.mark.parametrize("name", outcomes.ALL)
def test_the_schema_holds(name: str) -> None:
    SCHEMA.validate(_report(outcomes.ALL[name]))


@given(ANY)
@settings(max_examples=examples(40), deadline=None)
def test_the_schema_holds_for_any_text(text: str) -> None:
    SCHEMA.validate(_report(full_of(text)).encode().decode())


def test_what_got_worse_is_a_failure_and_the_rest_an_error() -> None:
    cases = _cases(outcomes.FAILED)
    assert _child(cases["models/mask.py", "base"], "failure").get("type") == "new-site"
    assert _child(cases["models/c.py", "base"], "error").get("type") == "crashed"
    assert len(cases["models/a.py", "base"]) == 0


def test_a_case_has_one_failure_with_all_findings() -> None:
    case = _cases(outcomes.WORSE)["models/text.py", "base"]
    assert [each.tag for each in case] == ["failure"]
    assert case[0].get("message") == (
        "new graph break: `print('mean', x.mean())` (+1 GB0059 models/text.py::Text.forward), and 4 more"
    )
    for finding in outcomes.WORSE.checked[3].findings:
        assert finding.what in (case[0].text or "")


def test_counts_are_those_of_the_cases() -> None:
    for suite in ElementTree.fromstring(_report(outcomes.FAILED).encode()):
        cases = suite.findall("testcase")
        assert int(suite.get("tests", "")) == len(cases)
        assert int(suite.get("failures", "")) == sum(case.find("failure") is not None for case in cases)
        assert int(suite.get("errors", "")) == sum(case.find("error") is not None for case in cases)


def test_findings_about_no_model_are_a_case_of_the_policy() -> None:
    case = _cases(outcomes.WRONG)["ctrace.yaml", outcomes.WRONG.findings[0].what]
    assert _child(case, "error").get("type") == "vanished"
    assert "ctrace.lock:5" in (_child(case, "error").text or "")


def test_a_report_is_the_same_each_time() -> None:
    assert _report(outcomes.HOSTILE) == _report(outcomes.HOSTILE)

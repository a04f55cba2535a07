"""The result of a check as JSON."""

import json

import pytest
from hypothesis import given, settings

from ctrace.inspector.features.check.policy_model import Count
from ctrace.reports.gate.json import render_check_json
from tests.reports.gate.texts import ANY, full_of
from tests.support import outcomes
from tests.support.golden import assert_golden
from tests.support.sampling import examples


@pytest.mark.parametrize("name", ["worse", "failed", "wrong"])
def test_report(name: str) -> None:
    assert_golden(f"check-{name}.json", render_check_json(outcomes.ALL[name]))


@pytest.mark.parametrize(
    ("name", "verdict", "code"),
    [("holds", "holds", 0), ("worse", "worse", 1), ("wrong", "wrong", 2), ("failed", "failed", 3), ("untrusted", "untrusted", 4)],
)  # fmt: skip
def test_verdict(name: str, verdict: str, code: int) -> None:
    data = json.loads(render_check_json(outcomes.ALL[name]))
    assert (data["schema"], data["verdict"], data["exit"]) == (1, verdict, code)


def test_every_count_has_a_name_and_unmeasured_ones_are_null() -> None:
    job = json.loads(render_check_json(outcomes.WORSE))["jobs"][3]
    assert set(job["counts"]) == set(Count)
    assert job["counts"]["spills"] is None
    assert job["coverage"] is None


def test_a_job_without_results_has_no_counts() -> None:
    job = json.loads(render_check_json(outcomes.FAILED))["jobs"][1]
    assert (job["counts"], job["sites"], job["coverage"]) == (None, None, None)


@given(ANY)
@settings(max_examples=examples(60), deadline=None)
def test_any_text_survives_and_can_be_encoded(text: str) -> None:
    report = render_check_json(full_of(text))
    note = json.loads(report.encode())["notes"][0]
    assert note.encode("utf-16", "surrogatepass") == text.encode("utf-16", "surrogatepass")

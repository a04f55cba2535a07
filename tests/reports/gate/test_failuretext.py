"""The text that pytest shows for a failed check."""

import re
from typing import Any

import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from ctrace.inspector.features.check.check_model import CheckedJob, CheckOutcome, FindingKind, GateFinding, JobKey, Lock
from ctrace.inspector.features.check.policy_model import CheckPolicy, Count
from ctrace.reports.gate.failuretext import failure_text
from tests.reports.gate.texts import ANY, full_of
from tests.support import outcomes
from tests.support.golden import assert_golden
from tests.support.sampling import examples

JOB = JobKey("tests/test_mask.py::test_mask[float32]#2")


def _one(*findings: GateFinding, lock: Lock = outcomes.LOCK, **parts: Any) -> CheckOutcome:
    state = outcomes.state(JOB, outcomes.BRANCH, graphs=3, coverage=71.4)
    checked = replace(CheckedJob(JOB, state, findings=findings, graphs_before=2, seconds=2.2), **parts)
    return CheckOutcome(CheckPolicy(), lock, (checked,), torch="2.13")


NEW = _one(outcomes.new_site(outcomes.BRANCH))
LIMIT = _one(
    GateFinding(FindingKind.LIMIT, "GB0170 mask.py::Mask.forward `if is_pad.any():`", site=outcomes.BRANCH, count=Count.BREAKS, was=0, now=1),
    lock=Lock(),
    graphs_before=None,
)  # fmt: skip
UNTRUSTED = _one(GateFinding(FindingKind.NOTHING_COMPILED, "torch.compile compiled nothing"), state=None)


@pytest.mark.parametrize("width", [80, 140])
@pytest.mark.parametrize(
    ("name", "outcome", "is_by_lock"),
    [("new", NEW, True), ("limit", LIMIT, True), ("number", LIMIT, False), ("untrusted", UNTRUSTED, True)],
)
def test_text(name: str, outcome: CheckOutcome, is_by_lock: bool, width: int) -> None:
    assert_golden(f"test-{name}-{width}.txt", f"{failure_text(outcome, width, is_by_lock=is_by_lock)}\n")


def test_the_first_line_has_the_verdict_and_the_check() -> None:
    assert failure_text(NEW, 20, is_by_lock=True).splitlines()[0] == f"WORSE  {JOB}"


def test_findings_about_the_lock_are_shown_too() -> None:
    wrong = GateFinding(FindingKind.NO_SECTION, "ctrace.lock says nothing of torch 2.13", "run pytest --ctrace-update")
    text = failure_text(replace(NEW, findings=(wrong,)), 80, is_by_lock=True)
    assert "1. ctrace.lock says nothing of torch 2.13\n   → run pytest --ctrace-update" in text
    assert "If this is wanted" not in text


@given(ANY)
@settings(max_examples=examples(40), deadline=None)
def test_foreign_text_cannot_control_the_terminal(text: str) -> None:
    shown = failure_text(full_of(text), 80, is_by_lock=True)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]", shown)

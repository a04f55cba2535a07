"""Suggestions for the sites of a check: which search is made, and what becomes of its result."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ctrace.cli.gate.check_suggestions import with_suggestions
from ctrace.inspector.facts.diagnosis import Finding, RootCause, RootKind, SuggestedRepair, Symptom
from ctrace.inspector.facts.session import Session
from ctrace.inspector.facts.sites import Site
from ctrace.inspector.facts.trial import NewText
from ctrace.inspector.features.check.check_model import CheckedJob, CheckJob, CheckOutcome, JobKey
from ctrace.inspector.features.fix.repairs import suggest_repairs
from ctrace.inspector.features.fix.repairs.repair_result import Combined, Fixes, ProofCheck, TriedRepair
from ctrace.inspector.features.fix.repairs.repair_result import ProofOutcome as Proof
from ctrace.inspector.features.fix.repairs.suggest_repairs import causes_at
from ctrace.inspector.features.fix.repairs.trial_runs import InterruptedTrialError, SearchBudget
from ctrace.inspector.runs.capture_request import Options
from tests.support import outcomes
from tests.support.gated import at_text, session_of

SOURCE = "def forward(x):\n    if x.any():\n        return x\n    print(x)\n    return -x\n"
FILE = f"{outcomes.CWD}/models/mask.py"
SESSION = replace(
    session_of(SOURCE, [at_text(SOURCE, "x.any"), at_text(SOURCE, "print")], file=FILE),
)
BRANCH = RootCause("branch", RootKind.TENSOR_BRANCH, "A branch", FILE, 2, "forward", (Symptom(Finding.BREAK, 0),))
PRINT = RootCause("print", RootKind.OUTPUT, "A print", FILE, 4, "forward", (Symptom(Finding.BREAK, 1),))
SITE = replace(outcomes.BRANCH, file=FILE, line=2)
PROVED = Proof((ProofCheck("outputs_equal", True),))
UNPROVED = Proof((ProofCheck("outputs_equal", False, "eager returns a different result"),))
AFTER = "def forward(x):\n    return torch.where(x.any(), x, -x)\n"


def tried(outcome: Proof = PROVED, **parts: Any) -> TriedRepair:
    made = TriedRepair("branch", ("branch",), "tensor_branch", "source", "Use where.", outcome, (NewText(FILE, AFTER),))
    return replace(made, **parts)


def fixes(*repairs: TriedRepair, **parts: Any) -> Fixes:
    made = Fixes(SESSION, (BRANCH, PRINT), repairs=repairs, texts=(NewText(FILE, SOURCE),))
    return replace(made, **parts)


def suggested(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, found: Callable[[], Fixes], *sites: Site, jobs: int = 1
) -> list[SuggestedRepair | None]:
    """Search for suggestions with a made-up result of each search."""

    class Fixing:
        def __init__(self, *_: Any, **__: Any) -> None:
            pass

        def run(self) -> Fixes:
            return found()

    model = tmp_path / "net.py"
    model.write_text("model = 1\ninputs = ()\n")
    monkeypatch.setattr(suggest_repairs, "Fixing", Fixing)
    monkeypatch.setattr(suggest_repairs, "causes_at", lambda site, *_: [BRANCH if site.line == 2 else PRINT])
    keys = [JobKey(f"net{number}.py") for number in range(jobs)]
    findings = tuple(outcomes.new_site(each) for each in sites or (SITE,))
    checked = tuple(CheckedJob(key, None, findings, run="a run") for key in keys)
    outcome: CheckOutcome = with_suggestions(
        outcomes.outcome(*checked),
        {key: CheckJob(key, str(model), Options()) for key in keys},
        lambda _: SESSION,
        SearchBudget(None),
        lambda _: None,
    )
    return [each.suggestion for one in outcome.checked for each in one.findings]


def test_a_proved_repair_is_suggested(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (found,) = suggested(monkeypatch, tmp_path, lambda: fixes(tried()))
    assert found is not None
    assert (found.proved, found.is_ready, found.repair) == (True, True, "tensor_branch")
    assert found.command == f"ctrace fix {tmp_path / 'net.py'} --only tensor_branch --finding mask.py:2 --apply"
    assert [(each.file, each.line, each.end) for each in found.replacements] == [(FILE, 2, 6)]


@pytest.mark.parametrize(
    ("result", "why"),
    [
        (fixes(tried(UNPROVED)), "eager returns a different result"),
        (fixes(), "ctrace knows no repair for it"),
        (fixes(budget_spent=True), "no time was left to look for a repair"),
        (fixes(unstable="two runs differ"), "nothing can be proved: two runs differ"),
        (fixes(interrupted=True), "the search was interrupted"),
    ],
)
def test_why_nothing_is_proved(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, result: Fixes, why: str):
    (found,) = suggested(monkeypatch, tmp_path, lambda: result)
    assert found is not None
    assert (found.proved, found.why, found.replacements) == (False, why, ())


@pytest.mark.parametrize("parts", [{"question": "May it print less?"}, {"library": "einops 1"}])
def test_what_only_the_user_can_decide_has_no_replacement(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, parts: dict[str, Any]
):
    (found,) = suggested(monkeypatch, tmp_path, lambda: fixes(tried(**parts)))
    assert found is not None
    assert (found.proved, found.is_ready, found.replacements) == (True, False, ())


def test_what_inductor_refutes_is_not_suggested(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    step = suggesting_step()
    combined = Combined(
        (step,), Proof((ProofCheck("inductor_equal", False, "compiled by Inductor, it differs"),)), (), ""
    )
    (found,) = suggested(monkeypatch, tmp_path, lambda: fixes(tried(), combined=combined))
    assert found is not None
    assert (found.proved, found.why) == (False, "compiled by Inductor, it differs")


def suggesting_step() -> Any:
    from ctrace.inspector.facts.diagnosis import Counts
    from ctrace.inspector.features.fix.repairs.repair_result import CombinedStep

    return CombinedStep("tensor_branch", "Use where.", Counts(1, 0, 0))


def test_one_search_for_the_same_site_of_two_jobs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    calls = []

    def search() -> Fixes:
        calls.append(1)
        return fixes(tried())

    found = suggested(monkeypatch, tmp_path, search, jobs=2)
    assert [each is not None and each.proved for each in found] == [True, True]
    assert len(calls) == 1


def test_ctrl_c_ends_all_searches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    calls = []

    def search() -> Fixes:
        calls.append(1)
        raise InterruptedTrialError

    other = replace(SITE, key=replace(SITE.key, text="print(x)"), line=4)
    found = suggested(monkeypatch, tmp_path, search, SITE, other, jobs=2)
    assert {each.why for each in found if each is not None} == {"the search was interrupted"}
    assert len(calls) == 1


def test_a_site_belongs_to_the_cause_at_its_line():
    session: Session = SESSION
    assert [each.id for each in causes_at(SITE, session, (BRANCH, PRINT))] == ["branch"]
    assert [each.id for each in causes_at(replace(SITE, line=4), session, (BRANCH, PRINT))] == ["print"]
    assert list(causes_at(replace(SITE, line=5), session, (BRANCH, PRINT))) == []

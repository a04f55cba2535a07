"""A search for repairs that cannot finish: the target fails by itself, the budget is spent, or advice must be tried."""

from collections import Counter
from pathlib import Path
from typing import Any

from ctrace.inspector.facts.findings import Owner
from ctrace.inspector.facts.session import Session
from ctrace.inspector.facts.trial import Trial
from ctrace.inspector.features.fix.repairs.fixing import Fixing, RepairChoice
from ctrace.inspector.features.fix.repairs.proving import ChangeToProve, Prover
from ctrace.inspector.features.fix.repairs.repair_result import Fixes
from ctrace.inspector.features.fix.repairs.trial_runs import FailedTrialError, SearchBudget
from ctrace.reports.terminal.fix_screen import answer
from tests.inspector.diagnosis.scenes import broken, ran

BRANCH = (
    "import torch\ndef forward(x):\n    y = x.relu()\n    if y.sum() > 0:\n        y = y * 2\n"
    "    if torch.rand(()) < 0.5:\n        y = y.flip(-1)\n    return y\n"
)


class FakeRunner:
    """Stands in for the runs of a target."""

    is_program = False

    def __init__(self, session: Session, *, fails: str = "", then: Any = None) -> None:
        self._session, self._fails, self._then = session, fails, then
        self.asked: list[Trial] = []

    def capture(self, trial: Trial, **_how: Any) -> Session:
        self.asked.append(trial)
        if self._then is not None:
            self._then()
        if self._fails and (self._fails != "changed" or trial != Trial()):
            raise FailedTrialError("RuntimeError: no kernel at 0x7f01" if trial == Trial() else _message(self._fails))
        return self._session

    def observe(self, trial: Trial, _request: Any) -> Any:
        self.asked.append(trial)
        if self._then is not None:
            self._then()
        raise FailedTrialError("Timeout: the program was still running")


def _message(fails: str) -> str:
    return "RuntimeError: no kernel at 0x7f99" if fails == "both" else f"ValueError: {fails}"


def branches(folder: Path) -> Session:
    file = folder / "net.py"
    file.write_text(BRANCH)
    breaks = (broken(line, "GB0170", file=str(file), owner=Owner.USER) for line in (4, 6))
    return ran(BRANCH, *breaks, file=str(file))


def searched(session: Session, runner: Any, budget: SearchBudget) -> Fixes:
    target = session.breaks[0].file
    return Fixing(session, runner, budget, target=target, choice=RepairChoice(), say=lambda _: None).run()


def why(session: Session, fails: str) -> str:
    runner: Any = FakeRunner(session, fails=fails)
    change = ChangeToProve(Trial(evaluate=True), Counter())
    return Prover(runner, session).attempt(change).outcome.why


def test_a_target_that_fails_without_the_change_is_named_as_such(tmp_path: Path):
    session = branches(tmp_path)
    assert why(session, "both") == "the target itself fails, before the change: RuntimeError: no kernel at 0x7f01"
    assert why(session, "another") == "the changed target fails: ValueError: another"
    assert why(session, "changed") == "the changed target fails: ValueError: changed"


def test_a_run_never_takes_longer_than_the_budget():
    assert SearchBudget(None).within(60.0) == 60.0
    assert SearchBudget(None).within(None) is None
    assert (SearchBudget(10.0).within(60.0) or 0) <= 10.0
    assert (SearchBudget(100.0).within(2.0)) == 2.0
    assert (SearchBudget(0.0).within(None)) == 0.1  # a limit of no seconds would be none


def test_a_spent_budget_says_what_was_not_done(tmp_path: Path):
    session = branches(tmp_path)
    budget = SearchBudget(1000.0)

    def spend() -> None:
        budget._ends = 0.0

    found = searched(session, FakeRunner(session, then=spend), budget)
    assert not found.unstable  # the observation was stopped in the middle
    assert found.budget_spent
    assert found.untried > 0
    assert "The budget of 1000 s was spent: 2 repairs not tried" in answer(found)
    assert "the advice of explain was not checked" in answer(found)


def test_advice_is_tried_where_a_repair_was_tried_and_not_proved(tmp_path: Path):
    session = branches(tmp_path)
    runner = FakeRunner(session)
    found = searched(session, runner, SearchBudget(None))
    assert found.unstable
    edits = [trial for trial in runner.asked if trial.edits]
    assert len(edits) == 2  # torch.where for each branch, as explain tries it


def test_the_files_that_repairs_would_change_are_known_before_the_search(tmp_path: Path):
    session = branches(tmp_path)
    runner: Any = FakeRunner(session)
    target = session.breaks[0].file
    search = Fixing(session, runner, SearchBudget(None), target=target, choice=RepairChoice(), say=lambda _: None)
    assert search.files_to_change() == (target,)
    assert not runner.asked

"""What is recorded of compared calls, and what a failure of the comparison leaves of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from ctrace.inspector.capture.calls.calling import CallResults  # noqa: E402
from ctrace.inspector.capture.calls.ways import Call  # noqa: E402
from ctrace.inspector.capture.comparing import dangers as module  # noqa: E402
from ctrace.inspector.capture.comparing.dangers import (  # noqa: E402
    Before,
    Dangers,
    SearchOutcome,
)
from ctrace.inspector.capture.comparing.eager import EagerRun, Traces  # noqa: E402
from ctrace.inspector.capture.comparing.verdicts import AGREED  # noqa: E402
from ctrace.inspector.capture.comparing.world import World  # noqa: E402
from ctrace.inspector.capture.isolation.random_states import RandomStates  # noqa: E402
from ctrace.inspector.facts.scenario_facts import DangerFound  # noqa: E402
from ctrace.inspector.facts.wire import Record  # noqa: E402


class FakeRecorder:
    """Keeps what is recorded."""

    def __init__(self) -> None:
        self.records: list[str] = []
        self.problems: list[str] = []
        self.doubt = ""

    def add(self, record: Record) -> None:
        self.records.append(f"{record.KIND} {getattr(record, 'kind', '')}".strip())

    def problem(self, text: str) -> None:
        self.problems.append(text)

    @contextmanager
    def watching(self, _what: str) -> Iterator[None]:
        yield


def before(scenario: str, results: CallResults) -> Before:
    run = EagerRun(results, None, Traces(), 0.0)
    call = Call((), {})
    return Before(scenario, 0, call, call, World(), None, World(), RandomStates(), run, 0)  # type: ignore[arg-type]


@pytest.fixture
def recorder() -> FakeRecorder:
    return FakeRecorder()


@pytest.fixture
def dangers(recorder: FakeRecorder) -> Dangers:
    ops = SimpleNamespace(runs=1, has_code_without_graph=False)
    return Dangers(None, None, recorder, ops, built=False)  # type: ignore[arg-type]


ONES, TWOS = (CallResults(torch.full((2,), value), [], []) for value in (1.0, 2.0))


def outcome(*, proven: bool) -> SearchOutcome:
    kind = "environment" if proven else "unexplained"
    return SearchOutcome(AGREED, (DangerFound(scenario="", call=0, kind=kind, subject="", proven=proven),))


def fail(*_arguments: Any) -> Any:
    raise ImportError("no backend")


@pytest.mark.parametrize("where", ["disagreeing", "_searched"])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_failed_comparison_and_unexplained_results_are_in_no_report_together(
    where: str, is_first: bool, dangers: Dangers, recorder: FakeRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(module if where == "disagreeing" else dangers, where, fail)
            dangers.after(before("failing", ONES), TWOS)

    def unexplained() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(dangers, "_searched", lambda _suspected: outcome(proven=False))
            dangers.after(before("unexplained", ONES), TWOS)

    for act in (failing, unexplained) if is_first else (unexplained, failing):
        act()
    (problem,) = recorder.problems
    assert problem.startswith("ctrace failed to compare it with eager")
    assert problem.endswith("ImportError: no backend")
    assert recorder.records == (["dangers_withdrawn"] if is_first else ["danger unexplained", "dangers_withdrawn"])
    assert dangers.not_compared("failing") == "ctrace failed to compare it (ImportError: no backend)"
    if is_first:
        assert dangers.not_compared("unexplained") == dangers.not_compared("failing")
        assert dangers.compared("unexplained") == dangers.compared("failing")


def test_a_proven_cause_stays(dangers: Dangers, recorder: FakeRecorder, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(dangers, "_searched", fail)
        dangers.after(before("failing", ONES), TWOS)
    monkeypatch.setattr(dangers, "_searched", lambda _suspected: outcome(proven=True))
    dangers.after(before("proven", ONES), TWOS)
    assert recorder.records == ["dangers_withdrawn", "danger environment"]
    assert (dangers.compared("proven"), dangers.not_compared("proven")) == (1, "")


def test_a_call_without_an_eager_one_says_why(recorder: FakeRecorder) -> None:
    def run(*_: Any) -> None:
        return None

    eager: Any = SimpleNamespace(run=run, why_not="the model cannot be copied for an eager run")
    ops: Any = SimpleNamespace(runs=1, has_code_without_graph=False)
    found = Dangers(None, eager, recorder, ops, built=False)  # type: ignore[arg-type]
    ahead = found.before("base", 1, Call((), {}), None, None)  # type: ignore[arg-type]
    found.after(ahead, None)  # type: ignore[arg-type]
    assert found.not_compared("base") == "the model cannot be copied for an eager run"

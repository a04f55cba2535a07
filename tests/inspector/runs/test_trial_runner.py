"""Trials of a run: which runs get trials, and what Ctrl-C leaves."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ctrace.inspector.diagnosis import advise, rules
from ctrace.inspector.diagnosis.diagnosis_scene import Candidate, DiagnosisScene
from ctrace.inspector.facts.diagnosis import Counts
from ctrace.inspector.facts.findings import Cause, CauseKind, Recompile
from ctrace.inspector.facts.session import Failure, FailurePhase, Session
from ctrace.inspector.facts.trial import Trial
from ctrace.inspector.runs import trial_runner
from ctrace.inspector.runs.capture_request import Options
from ctrace.inspector.runs.target import ModelTarget, ProgramTarget
from ctrace.inspector.runs.trial_runner import INTERRUPTED, with_trials
from tests.inspector.diagnosis.test_advise import printing

MODEL = ModelTarget(Path("model.py"), None, None)


def stopping(monkeypatch: pytest.MonkeyPatch, second: Session | BaseException) -> None:
    """Let the first trial succeed, and the second end with `second`."""
    left = [printing(0), second]

    def capture(*_args: Any, **_options: Any) -> Session:
        found = left.pop(0)
        if isinstance(found, BaseException):
            raise found
        return found

    monkeypatch.setattr(trial_runner, "capture", capture)


@pytest.mark.parametrize(
    "second",
    [KeyboardInterrupt(), Session(failure=Failure(FailurePhase.INTERRUPT, "KeyboardInterrupt", "interrupted"))],
)
def test_an_interrupt_keeps_the_run_and_what_was_tried(
    second: Session | BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rule(scene: DiagnosisScene) -> Iterator[Candidate]:
        for number, cause in enumerate(scene.causes):
            yield Candidate(f"try {number}", (cause.id,), Trial(settings=((f"option{number}", True),)))

    monkeypatch.setattr(rules, "RULES", (rule,))
    monkeypatch.setattr(advise, "_is_gone", lambda *_: False)
    monkeypatch.setattr(advise, "_is_settled", lambda *_: False)
    stopping(monkeypatch, second)
    said: list[str] = []
    session = with_trials(printing(3), lambda *_: None, MODEL, Options(), say=said.append)
    assert [each.counts for each in session.trials] == [Counts(1, 0, 0, 80.0)]
    assert [each.what for each in session.problems] == [INTERRUPTED]
    assert said == ["checking advice, run 1 of at most 3", "checking advice, run 2 of at most 3"]


def test_the_run_of_more_calls_is_counted_beside_the_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    def rule(scene: DiagnosisScene) -> Iterator[Candidate]:
        for number, cause in enumerate(scene.causes):
            yield Candidate(f"try {number}", (cause.id,), Trial(settings=((f"option{number}", True),)))

    monkeypatch.setattr(rules, "RULES", (rule,))
    monkeypatch.setattr(advise, "_is_gone", lambda *_: False)
    monkeypatch.setattr(advise, "_is_settled", lambda *_: False)
    monkeypatch.setattr(trial_runner, "capture", lambda *_, **__: printing(0))
    said: list[str] = []
    with_trials(
        replace(printing(4), recompiles=(replace(SIZED, call=1),)), lambda *_: None, MODEL, Options(), say=said.append
    )
    assert said == [f"checking advice, run {number} of at most 4" for number in (1, 2, 3, 4)]


@pytest.mark.parametrize(
    ("target", "options"),
    [
        (ProgramTarget(Path("train.py"), None, (), None), Options()),
        (MODEL, Options(fast=True)),
        (MODEL, Options(gpu="h100")),
        (MODEL, Options(fullgraph=True)),
    ],
)
def test_what_cannot_be_tried_is_left(target: Any, options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    stopping(monkeypatch, AssertionError("a trial was run"))
    session = printing(3)
    assert with_trials(session, lambda *_: None, target, options) is session


SIZED = Recompile("0/1", "forward", "net.py", 3, True, (Cause(CauseKind.SIZE, "x.size(0)", "2", "4"),))


@pytest.mark.parametrize(
    ("late", "recompiles", "is_settled"),
    [
        ({"0/1": ()}, (SIZED,), True),
        ({"0/1": ("Eq(s0, 4)",)}, (SIZED,), False),
        ({"1/1": ()}, (SIZED,), False),  # another function's graph says nothing about this one
        ({}, (), False),
    ],
)
def test_trials_leave_inductor_out_where_it_added_no_guard(
    late: dict[str, tuple[str, ...]],
    recompiles: tuple[Recompile, ...],
    is_settled: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Options] = []

    def capture(_resolved: Any, options: Options, **_rest: Any) -> Session:
        asked.append(options)
        return printing(0)

    monkeypatch.setattr(trial_runner, "capture", capture)
    session = replace(printing(3), late_guards=late, recompiles=recompiles)
    with_trials(session, lambda *_: None, MODEL, Options())
    assert {(each.trace_only, each.inductor_guards) for each in asked} == {(True, not is_settled)}
    # Another backend has no guards of Inductor, which would fill a cache that is not full in the user's run.
    asked.clear()
    with_trials(session, lambda *_: None, MODEL, Options(backend="eager"))
    assert not any(each.inductor_guards for each in asked)

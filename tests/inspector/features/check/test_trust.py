"""Reasons why a job cannot be judged."""

import pytest
from msgspec.structs import replace

from ctrace.inspector.errors import Exit, TargetError
from ctrace.inspector.facts.scenario_facts import Outcome, ScenarioKind
from ctrace.inspector.facts.session import (
    Environment,
    Failure,
    FailurePhase,
    Problem,
    Scenario,
    Session,
)
from ctrace.inspector.features.check.check_model import EXITS, CheckJob, FinishedJob, JobKey
from ctrace.inspector.features.check.trust import reduced, untrusted
from ctrace.inspector.runs.capture_request import Options
from ctrace.inspector.session.build import build
from tests.support.gated import ROOT, checked_of, kinds, lock_of, outcome_of, state_with
from tests.support.helpers import parsed, recorded
from tests.support.places import DATA
from tests.support.sessions import HEALTHY, NOTHING

JOB = CheckJob(JobKey("model.py"), "model.py", Options())


def found(session: Session, said: str = "") -> list[str]:
    return [str(each.kind) for each in untrusted(session, said)]


def test_a_healthy_run_is_trusted() -> None:
    assert found(HEALTHY) == []


@pytest.mark.parametrize(
    ("phase", "kind", "code"),
    [
        ("target", "wrong", Exit.USAGE),
        ("load", "failed", Exit.PROGRAM),
        ("eager", "failed", Exit.PROGRAM),
        ("run", "compile-failed", Exit.PROGRAM),
        ("crash", "crashed", Exit.PROGRAM),
        ("timeout", "timeout", Exit.PROGRAM),
        ("interrupt", "crashed", Exit.PROGRAM),
    ],
)
def test_every_way_to_fail_is_said(phase: str, kind: str, code: Exit) -> None:
    failure = Failure(FailurePhase(phase), "ValueError", "no\n such  luck", "model.py", 3)
    (only,) = untrusted(replace(HEALTHY, failure=failure))
    assert (str(only.kind), EXITS[only.kind], only.file, only.line) == (kind, code, "model.py", 3)
    assert only.what.endswith("no such luck")


def test_every_phase_has_its_kind() -> None:
    for phase in FailurePhase:
        assert found(replace(NOTHING, failure=Failure(phase, "E", ""))) != []


def test_of_a_failure_the_last_words_are_told() -> None:
    crash = replace(HEALTHY, failure=Failure(FailurePhase.CRASH, "SIGABRT", "it crashed"))
    assert [each.todo for each in untrusted(crash, "one\nlast words\n\n")] == ["its last line was: last words"]
    assert [each.todo for each in untrusted(crash)] == ["run it with ctrace explain to see more"]


def test_scenarios_that_do_not_run_are_said() -> None:
    scenarios = (
        Scenario("base"),
        Scenario("a", outcome=Outcome.COMPILE_FAILED, message="ValueError:\n no"),
        Scenario("b", outcome=Outcome.NOT_TAKEN, message="TypeError: no"),
        Scenario("c", outcome=Outcome.NOT_TAKEN, kind=ScenarioKind.PROVOKED),
        Scenario("d", outcome=Outcome.COMPILE_FAILED, kind=ScenarioKind.PROVOKED),
    )
    every = list(untrusted(replace(HEALTHY, scenarios=scenarios)))
    assert [str(each.kind) for each in every] == ["compile-failed", "failed", "compile-failed"]
    assert every[0].what == "scenario a: with torch.compile it raises ValueError: no"


def test_nothing_compiled_is_never_green() -> None:
    assert found(NOTHING) == ["nothing-compiled"]
    ran = reduced(FinishedJob(JOB, NOTHING), ROOT)
    for lock in (None, lock_of(state_with(graphs=0))):
        assert checked_of(ran, lock).exit is Exit.UNTRUSTED


def test_what_switched_torch_compile_off_is_said() -> None:
    off = replace(NOTHING, environment=Environment(torch="2.13.0", switched_off="TORCHDYNAMO_DISABLE is set"))
    assert [each.todo for each in untrusted(off)] == ["TORCHDYNAMO_DISABLE is set"]


def test_of_problems_only_doubts_count() -> None:
    problems = (Problem("cosmetic"), Problem("cut short", 12, is_doubt=True))
    assert [each.what for each in untrusted(replace(HEALTHY, problems=problems))] == ["cut short"]


def test_a_log_that_names_no_torch_cannot_be_asked_of_a_lock() -> None:
    nameless = replace(HEALTHY, environment=Environment())
    assert found(nameless) == ["doubt"]
    outcome = outcome_of(reduced(FinishedJob(JOB, nameless), ROOT), lock_of(state_with()))
    assert outcome.exit is Exit.UNTRUSTED


def test_a_job_without_a_session_is_never_green() -> None:
    wrong = reduced(FinishedJob(JOB, error=TargetError("no such file", "name another")), ROOT)
    assert [(each.what, each.todo) for each in wrong.doubts] == [("no such file", "name another")]
    assert checked_of(wrong).exit is Exit.USAGE
    assert kinds(checked_of(reduced(FinishedJob(JOB), ROOT))) == ["crashed"]


@pytest.mark.parametrize("name", ["loop_break", "generator_compiled", "no_ops", "suppressed_errors", "dispatch_mode"])
def test_recorded_runs_that_compiled_nothing_are_not_trusted(name: str) -> None:
    assert found(recorded(name)) == ["nothing-compiled"]


@pytest.mark.parametrize("name", ["print_break", "train_eval", "two_functions", "dynamic_sizes.torch", "sizes.torch"])
def test_recorded_runs_that_compiled_something_are_trusted(name: str) -> None:
    assert found(recorded(name)) == []


def test_a_log_that_is_cut_between_records_is_doubted_while_something_compiles() -> None:
    lines = (DATA / "try_break.torch.log").read_bytes().splitlines(keepends=True)
    starts = [at for at, line in enumerate(lines) if line.startswith(b"V")]
    cut = {at: found(build(parsed(b"".join(lines[:at])))) for at in starts[1:]}
    green = [at for at, doubts in cut.items() if not doubts]
    ends = [at for at in starts if b"compilation_metrics" in lines[at]]
    assert all(any(end < at for end in ends) for at in green)
    assert cut[ends[-1]] == ["doubt"]


@pytest.mark.parametrize("name", ["print_break.log", "dynamic_sizes.torch.log"])
def test_a_log_that_is_cut_within_a_record_is_doubted(name: str) -> None:
    lines = (DATA / name).read_bytes().splitlines(keepends=True)
    starts = [at for at, line in enumerate(lines) if line.startswith(b"V") and b"has_payload" in line]
    for at in (starts[len(starts) // 2], starts[-1]):
        for cut in (lines[at][: len(lines[at]) // 2], lines[at], lines[at] + lines[at + 1][:-3]):
            session = build(parsed(b"".join(lines[:at]) + cut))
            assert set(found(session)) & {"doubt", "nothing-compiled"}, (at, cut[-60:])

"""Reduce a job to its counts and sites (`reduced`), with the reasons why these cannot be judged (`untrusted`).

Reasons are how the program ended, that nothing compiled, and sources that disagree.
"""

from collections.abc import Iterator
from pathlib import Path

from ctrace.inspector.facts.accuracy_facts import Accuracy
from ctrace.inspector.facts.scenario_facts import Outcome, ScenarioKind
from ctrace.inspector.facts.session import Failure, FailurePhase, Scenario, Session
from ctrace.inspector.features.check.check_model import CheckedJob, FindingKind, FinishedJob, GateFinding, SeenJob
from ctrace.inspector.features.check.check_state import minor_of, state_of

_PHASES = {
    FailurePhase.TARGET: FindingKind.WRONG,
    FailurePhase.LOAD: FindingKind.FAILED,
    FailurePhase.EAGER: FindingKind.FAILED,
    FailurePhase.RUN: FindingKind.COMPILE_FAILED,
    FailurePhase.CRASH: FindingKind.CRASHED,
    FailurePhase.INTERRUPT: FindingKind.CRASHED,
    FailurePhase.TIMEOUT: FindingKind.TIMEOUT,
}
_BEFORE = {
    FailurePhase.LOAD: "importing it raised ",
    FailurePhase.EAGER: "without torch.compile it raises ",
    FailurePhase.RUN: "with torch.compile it raises ",
}
_AGAIN = "take the log after the program has ended, or find out what ended it"
_REPORT = "inspect the run with ctrace explain, and report it"
_JUDGEMENTS = frozenset(
    (FindingKind.NEW_SITE, FindingKind.MORE_TIMES, FindingKind.MORE, FindingKind.LIMIT, FindingKind.NOT_MEASURED)
)
"""With findings of these kinds, the numbers of a job are still valid."""


def is_judged(checked: CheckedJob) -> bool:
    """Whether the results of a job are complete and can be written to the lock."""
    return checked.state is not None and all(each.kind in _JUDGEMENTS for each in checked.findings)


def reduced(ran: FinishedJob, root: Path) -> SeenJob:
    """Reduce a job to what a check keeps of it."""
    if ran.session is None:
        return SeenJob(ran.job, None, (_without_session(ran),), has_ended=False, seconds=ran.seconds, run=ran.run)
    state = state_of(ran.session, ran.job.key, root)
    doubts = tuple(untrusted(ran.session, ran.last_lines))
    has_ended = ran.session.failure is None and not ran.session.cut_off
    return SeenJob(ran.job, state, doubts, has_ended, ran.seconds, ran.run)


def _without_session(ran: FinishedJob) -> GateFinding:
    if ran.error is not None:
        return GateFinding(FindingKind.WRONG, ran.error.what, ran.error.todo)
    return GateFinding(FindingKind.CRASHED, "it ended without a readable log", "run it with ctrace explain to see more")


def untrusted(session: Session, output: str = "") -> Iterator[GateFinding]:
    """Yield the reasons why a job cannot be judged, or why its verdict is doubtful."""
    if session.failure is not None:
        yield _failed(session.failure, output)
    yield from _scenarios(session)
    # Without a graph there is no break either: a check would pass because nothing compiled.
    if session.failure is None and not session.graphs:
        why = session.environment.switched_off
        todo = why or "ctrace explain says why; without a graph there is nothing to check"
        yield GateFinding(FindingKind.NOTHING_COMPILED, "torch.compile compiled nothing", todo)
    if session.failure is None and not minor_of(session):
        todo = "a complete log names it; without it, there is no comparison with the lock"
        yield GateFinding(FindingKind.DOUBT, "the log does not say which torch wrote it", todo)
    yield from _numbers(session.accuracy)
    if session.memory is not None and session.memory.why_not:
        what = f"memory: it could not be followed: {session.memory.why_not}"
        yield GateFinding(FindingKind.NOT_MEASURED, what, "see ctrace memory, or leave memory out for this model")
    cut = {each.what for each in session.cut_off}
    for problem in session.problems:
        if problem.is_doubt:
            yield GateFinding(FindingKind.DOUBT, problem.what, _AGAIN if problem.what in cut else _REPORT)


def _numbers(found: Accuracy | None) -> Iterator[GateFinding]:
    """Yield why the kernels' numbers cannot be judged, if they were to be compared."""
    if found is None:
        return
    if not found.kernels:
        why = "nothing was compiled"
        if found.not_compared:
            why = found.not_compared[0].why
        todo = "see ctrace accuracy, or leave accuracy out for this model"
        yield GateFinding(FindingKind.NOT_MEASURED, f"accuracy: nothing was compared: {why}", todo)
    elif found.equal is False and not found.culprits:
        what = "the whole compiled result is further off than rounding explains, and no kernel is wrong by itself"
        yield GateFinding(FindingKind.DOUBT, what, "see ctrace accuracy; then report it to PyTorch")


def _failed(failure: Failure, output: str) -> GateFinding:
    what = " ".join(failure.message.split())
    if failure.phase in _BEFORE:
        what = f"{_BEFORE[failure.phase]}{failure.type}: {what}"
    last = output.strip().rpartition("\n")[2]
    todo = failure.todo or (f"its last line was: {last}" if last else "run it with ctrace explain to see more")
    return GateFinding(_PHASES[failure.phase], what, todo, file=failure.file, line=failure.line)


def _scenarios(session: Session) -> Iterator[GateFinding]:
    reported = _of_failure(session)
    for each in session.scenarios:
        if each is reported:
            continue
        if each.outcome is Outcome.COMPILE_FAILED:
            what = f"scenario {each.name}: with torch.compile it raises {' '.join(each.message.split())}"
            yield GateFinding(FindingKind.COMPILE_FAILED, what, "it runs without torch.compile; see ctrace explain")
        # What the model rejects of inputs that ctrace made up is no fault of the model.
        elif each.outcome is Outcome.NOT_TAKEN and each.kind is not ScenarioKind.PROVOKED:
            what = f"scenario {each.name}: the model rejects it: {' '.join(each.message.split())}"
            yield GateFinding(FindingKind.FAILED, what, "correct the scenario, or the model")
    if left := [each.name for each in session.scenarios if each.outcome is Outcome.NOT_RUN]:
        what = f"not run: {'scenario' if len(left) == 1 else 'scenarios'} {', '.join(left)}"
        if session.failure is None:
            kind = FindingKind.DOUBT
        else:
            kind = _PHASES[session.failure.phase]
        yield GateFinding(kind, what, "the run ended before they started")


def _of_failure(session: Session) -> Scenario | None:
    """Return the scenario whose calls raised the failure that ended the run."""
    if session.failure is None or session.failure.phase not in (FailurePhase.RUN, FailurePhase.EAGER):
        return None
    failed = (Outcome.COMPILE_FAILED, Outcome.NOT_TAKEN)
    requested = (each for each in session.scenarios if each.kind is not ScenarioKind.PROVOKED)
    return next((each for each in requested if each.outcome in failed), None)

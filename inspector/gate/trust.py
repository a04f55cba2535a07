"""Whether a job can be judged at all: how the program ended, whether something compiled, whether the sources agree."""

from collections.abc import Iterator
from pathlib import Path

from ctrace.inspector.gate.facts import state_of
from ctrace.inspector.gate.model import Finding, FindingKind, Ran, Seen
from ctrace.inspector.model import Failure, FailurePhase, Outcome, ScenarioKind, Session

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
    FailurePhase.RUN: "compiled it raises ",
}


def seen(ran: Ran, root: Path) -> Seen:
    """Take from a job that ran what a gate looks at."""
    if ran.session is None:
        wrong = (Finding(FindingKind.WRONG, ran.error.what, ran.error.todo),) if ran.error else ()
        return Seen(ran.job, None, wrong, has_ended=False, seconds=ran.seconds, run=ran.run)
    state = state_of(ran.session, ran.job.key, root)
    doubts = tuple(untrusted(ran.session, ran.said))
    return Seen(ran.job, state, doubts, ran.session.failure is None, ran.seconds, ran.run)


def untrusted(session: Session, said: str = "") -> Iterator[Finding]:
    """Say what keeps a job from being judged, or makes the judgement doubtful."""
    if session.failure is not None:
        yield _failed(session.failure, said)
    yield from _scenarios(session)
    if session.failure is None and not session.graphs:
        why = session.environment.switched_off
        todo = why or "ctrace explain says why; a check of nothing holds nothing"
        yield Finding(FindingKind.NOTHING_COMPILED, "torch.compile compiled nothing", todo)
    for problem in session.problems:
        if problem.is_doubt:
            yield Finding(FindingKind.DOUBT, problem.what, "look at the run with ctrace explain, and report it")


def _failed(failure: Failure, said: str) -> Finding:
    what = " ".join(failure.message.split())
    if failure.phase in _BEFORE:
        what = f"{_BEFORE[failure.phase]}{failure.type}: {what}"
    last = said.strip().rpartition("\n")[2]
    todo = failure.todo or (f"its last line was: {last}" if last else "run it with ctrace explain to see more")
    return Finding(_PHASES[failure.phase], what, todo, file=failure.file, line=failure.line)


def _scenarios(session: Session) -> Iterator[Finding]:
    for each in session.scenarios:
        if each.outcome is Outcome.COMPILE_FAILED:
            what = f"scenario {each.name}: compiled it raises {' '.join(each.message.split())}"
            yield Finding(FindingKind.COMPILE_FAILED, what, "it runs without torch.compile; see ctrace explain")
        elif each.outcome is Outcome.NOT_TAKEN and each.kind is not ScenarioKind.PROVOKED:
            what = f"scenario {each.name}: the model does not take it: {' '.join(each.message.split())}"
            yield Finding(FindingKind.FAILED, what, "correct the scenario, or the model")

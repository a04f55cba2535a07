"""Whether a job can be judged at all: how the program ended, whether something compiled, whether the sources agree."""

from collections.abc import Iterator
from pathlib import Path

from ctrace.inspector.gate.model import Ran
from ctrace.inspector.gate.state import minor_of, state_of
from ctrace.inspector.gate.verdict import Checked, Finding, FindingKind, Seen
from ctrace.inspector.model.scenarios import Outcome, ScenarioKind
from ctrace.inspector.model.session import Failure, FailurePhase, Scenario, Session

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
_AGAIN = "take the log when the program has ended, or look at what ended it"
_REPORT = "look at the run with ctrace explain, and report it"
_JUDGEMENTS = frozenset(
    (FindingKind.NEW_SITE, FindingKind.MORE_TIMES, FindingKind.MORE, FindingKind.LIMIT, FindingKind.NOT_MEASURED)
)
"""What is found of a job whose numbers can be trusted."""


def is_judged(checked: Checked) -> bool:
    """Whether what a job showed is all there is, and can be written down."""
    return checked.state is not None and all(each.kind in _JUDGEMENTS for each in checked.findings)


def seen(ran: Ran, root: Path) -> Seen:
    """Take from a job that ran what a gate looks at."""
    if ran.session is None:
        return Seen(ran.job, None, (_without_session(ran),), has_ended=False, seconds=ran.seconds, run=ran.run)
    state = state_of(ran.session, ran.job.key, root)
    doubts = tuple(untrusted(ran.session, ran.said))
    has_ended = ran.session.failure is None and not ran.session.cut_off
    return Seen(ran.job, state, doubts, has_ended, ran.seconds, ran.run)


def _without_session(ran: Ran) -> Finding:
    if ran.error is not None:
        return Finding(FindingKind.WRONG, ran.error.what, ran.error.todo)
    return Finding(FindingKind.CRASHED, "it ended and left nothing to read", "run it with ctrace explain to see more")


def untrusted(session: Session, said: str = "") -> Iterator[Finding]:
    """Say what keeps a job from being judged, or makes the judgement doubtful."""
    if session.failure is not None:
        yield _failed(session.failure, said)
    yield from _scenarios(session)
    if session.failure is None and not session.graphs:
        why = session.environment.switched_off
        todo = why or "ctrace explain says why; a check of nothing holds nothing"
        yield Finding(FindingKind.NOTHING_COMPILED, "torch.compile compiled nothing", todo)
    if session.failure is None and not minor_of(session):
        todo = "a log from its beginning names it; without it, the lock cannot be asked"
        yield Finding(FindingKind.DOUBT, "the log does not say which torch wrote it", todo)
    cut = {each.what for each in session.cut_off}
    for problem in session.problems:
        if problem.is_doubt:
            yield Finding(FindingKind.DOUBT, problem.what, _AGAIN if problem.what in cut else _REPORT)


def _failed(failure: Failure, said: str) -> Finding:
    what = " ".join(failure.message.split())
    if failure.phase in _BEFORE:
        what = f"{_BEFORE[failure.phase]}{failure.type}: {what}"
    last = said.strip().rpartition("\n")[2]
    todo = failure.todo or (f"its last line was: {last}" if last else "run it with ctrace explain to see more")
    return Finding(_PHASES[failure.phase], what, todo, file=failure.file, line=failure.line)


def _scenarios(session: Session) -> Iterator[Finding]:
    reported = _of_failure(session)
    for each in session.scenarios:
        if each is reported:
            continue
        if each.outcome is Outcome.COMPILE_FAILED:
            what = f"scenario {each.name}: compiled it raises {' '.join(each.message.split())}"
            yield Finding(FindingKind.COMPILE_FAILED, what, "it runs without torch.compile; see ctrace explain")
        elif each.outcome is Outcome.NOT_TAKEN and each.kind is not ScenarioKind.PROVOKED:
            what = f"scenario {each.name}: the model does not take it: {' '.join(each.message.split())}"
            yield Finding(FindingKind.FAILED, what, "correct the scenario, or the model")
    if left := [each.name for each in session.scenarios if each.outcome is Outcome.NOT_RUN]:
        what = f"not run: {'scenario' if len(left) == 1 else 'scenarios'} {', '.join(left)}"
        kind = FindingKind.DOUBT if session.failure is None else _PHASES[session.failure.phase]
        yield Finding(kind, what, "the run ended before their turn came")


def _of_failure(session: Session) -> Scenario | None:
    """Return the scenario whose end the failure of the run is."""
    if session.failure is None or session.failure.phase not in (FailurePhase.RUN, FailurePhase.EAGER):
        return None
    ended = (Outcome.COMPILE_FAILED, Outcome.NOT_TAKEN)
    asked = (each for each in session.scenarios if each.kind is not ScenarioKind.PROVOKED)
    return next((each for each in asked if each.outcome in ended), None)

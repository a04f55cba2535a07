"""Say what each provoked scenario showed, and what of the scenarios was not compared or not measured."""

from msgspec import Struct

from ctrace.inspector.facts.findings import Cause, CauseKind, Recompile
from ctrace.inspector.facts.scenario_facts import Outcome, ScenarioKind
from ctrace.inspector.facts.session import Scenario, Session
from ctrace.inspector.knowledge.counting import count


class Provoked(Struct, frozen=True):
    """A provoked scenario, and its result in a sentence."""

    scenario: Scenario
    answer: str
    recompiles: int


def recompiles_in(session: Session, scenario: Scenario) -> tuple[Recompile, ...]:
    """List the recompilations during a scenario."""
    return tuple(each for each in session.recompiles if each.scenario == scenario.name)


def provoked(session: Session) -> tuple[Provoked, ...]:
    """List what `--provoke` tried, in order."""
    tried = [each for each in session.scenarios if each.kind is ScenarioKind.PROVOKED]
    return tuple(Provoked(each, _answer(session, each), len(recompiles_in(session, each))) for each in tried)


def _answer(session: Session, scenario: Scenario) -> str:
    if scenario.outcome is Outcome.NOT_TAKEN:
        return f"fails in eager too: {scenario.message}"
    if scenario.outcome is Outcome.COMPILE_FAILED:
        return f"fails only when compiled: {scenario.message}"
    found = recompiles_in(session, scenario)
    if not found:
        return _without_recompile(session, scenario)
    times = {1: "once", 2: "twice"}.get(len(found), f"{len(found)} times")
    causes = dict.fromkeys(_named(cause) for each in found for cause in each.causes)
    why = ", ".join(causes) or "torch logs no reason"
    expected = " (expected)" if all(each.expected for each in found) else ""
    return f"recompiled {times}{expected}: {why}"


def _named(cause: Cause) -> str:
    if cause.kind is CauseKind.ZERO_ONE:
        if cause.now in ("0", "1"):
            return f"{cause.subject} became 0 or 1"
        return f"{cause.subject} was 0 or 1 before"
    kind = cause.kind.replace("_", " ")
    if cause.kind == cause.subject:
        return kind
    return f"{kind} of {cause.subject}"


def _without_recompile(session: Session, scenario: Scenario) -> str:
    # None is not measured: only a measured 0 says that all of it runs eagerly.
    if not scenario.coverage.ops or scenario.coverage.compiled != 0:
        return "no recompilation"
    why = "the recompile limit was hit" if session.limit.hit else "none of its ops are in a graph"
    return f"runs eagerly: {why}"


def not_compared(session: Session) -> dict[str, list[str]]:
    """Return the scenarios with calls that were not compared with eager, by reason."""
    found: dict[str, list[str]] = {}
    for each in session.scenarios:
        if each.not_compared:
            partly = ""
            if each.compared:
                partly = f" ({each.compared} of {count(each.calls, 'call')} compared)"
            found.setdefault(each.not_compared, []).append(f"{each.name}{partly}")
    return found


def why_no_coverage(session: Session) -> str:
    """Return why the share of ops in graphs is not measured; empty if it is."""
    if session.coverage.ops is not None and session.coverage.compiled is not None:
        return ""
    if not session.environment.ctrace:
        return "torch alone wrote this log"
    if session.failure is not None:
        return "the run ended early"
    if not session.scenarios:
        return "a program gets no eager call"
    # Provoked calls are not the user's, and are no part of the run's coverage.
    own = [each for each in session.scenarios if each.kind is not ScenarioKind.PROVOKED]
    return next((each.not_compared for each in own if each.not_compared), "no call was counted in eager")

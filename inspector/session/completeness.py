"""Write the first lines of every screen: what was cut off, and which scenarios did not run."""

from ctrace.inspector.facts.outcome import NO_END_MARK, CutKind
from ctrace.inspector.facts.scenario_facts import Outcome
from ctrace.inspector.facts.session import Problem, RunFacts, Session

_MOST = 4


def first_lines(session: Session) -> tuple[str, ...]:
    """Say what is not known about a run, and why, one sentence per line; empty for a complete run."""
    lines = [_evidence(each.what, each.unknown) for each in session.cut_off[:_MOST]]
    lines += [_evidence(each.what) for each in _doubts(session)[:_MOST]]
    left = len(session.cut_off[_MOST:]) + len(_doubts(session)[_MOST:])
    lines += [f"And {left} more, in the JSON report."] if left > 0 else []
    lines += _scenarios(session)
    if session.is_endless:
        lines.append(_evidence(NO_END_MARK))
    return tuple(lines)


def other_problems(run: Session | RunFacts) -> tuple[Problem, ...]:
    """List the problems that `first_lines` does not include."""
    return tuple(each for each in run.problems if not each.is_doubt and each.what != NO_END_MARK)


def _doubts(session: Session) -> list[Problem]:
    """List the doubts that are no evidence for a cut, such as sources that disagree on a detail."""
    cut = {each.what for each in session.cut_off}
    return [each for each in session.problems if each.is_doubt and each.what not in cut]


def being_compiled(session: Session) -> tuple[str, ...]:
    """Return the ids of the compilations that were running when the run or its log ended."""
    ids = (each.compilation for each in session.cut_off if each.kind is CutKind.COMPILATION)
    return tuple(dict.fromkeys(id_ for id_ in ids if id_ is not None))


def is_whole(run: Session | RunFacts) -> bool:
    """Whether there is no evidence that something is missing or wrong."""
    return not run.cut_off and not any(each.is_doubt for each in run.problems)


def _evidence(what: str, unknown: str = "") -> str:
    sentence = f"{what[:1].upper()}{what[1:]}"
    if unknown:
        return f"{sentence}. Not known: {unknown}."
    return f"{sentence}."


def _scenarios(session: Session) -> list[str]:
    by_outcome = {outcome: [each.name for each in session.scenarios if each.outcome is outcome] for outcome in Outcome}
    lines = []
    if names := by_outcome[Outcome.UNFINISHED]:
        lines.append(f"Cut short: {_named(names)}.")
    if names := by_outcome[Outcome.NOT_RUN]:
        lines.append(f"Not run: {_named(names)}.")
    return lines


def _named(names: list[str]) -> str:
    return f"{'scenario' if len(names) == 1 else 'scenarios'} {', '.join(names)}"

"""The first answers: what happened in one sentence, what was generated in numbers, what to do next."""

from collections import Counter
from dataclasses import dataclass
from pathlib import PurePath

from ctrace.inspector.findings import BreakKind
from ctrace.inspector.model import FailurePhase, Session, Verdict
from ctrace.inspector.views.attention import Answer, unfused, wrong
from ctrace.inspector.views.breaks import lonely_skips, ranked
from ctrace.inspector.views.recompiles import groups
from ctrace.inspector.views.targetgpu import listed, not_emitted, target_of
from ctrace.inspector.views.userkernels import stuck


@dataclass(frozen=True, slots=True)
class FusionTotals:
    """Fusion over all graph parts: the most rounds of any, without the reorder pass, and all nodes before and after."""

    rounds: int
    before: int
    after: int


def fusion_totals(session: Session) -> FusionTotals | None:
    """Add up fusion; None when no graph went through Inductor's scheduler."""
    if not session.fusions:
        return None
    return FusionTotals(
        max(sum(not each.reorder for each in fusion.rounds) for fusion in session.fusions),
        sum(fusion.before for fusion in session.fusions),
        sum(fusion.after for fusion in session.fusions),
    )


def languages(session: Session) -> dict[str, int]:
    """Count kernels by language, most first."""
    return dict(Counter(kernel.language for kernel in session.kernels).most_common())


def guard_count(session: Session) -> int | None:
    """Add up the guards of all compilations; None when torch says of none."""
    counts = [compilation.guards for compilation in session.compilations if compilation.guards is not None]
    return sum(counts) if counts else None


def sentence(session: Session) -> str:
    """Say what happened, verdict first."""
    match session.verdict:
        case Verdict.COMPILED:
            whole = "one graph" if len(session.graphs) == 1 else f"{len(session.graphs)} graphs"
            return f"torch.compile took all of it: {whole}, no break, {_rest(session)}.{_wrong(session)}"
        case Verdict.PARTIAL:
            return f"torch.compile took {_part(session)}: {_why_partial(session)}.{_worst(session)}{_wrong(session)}"
        case Verdict.NOT_COMPILED:
            return f"Nothing was compiled: {_why_nothing(session)}"
        case Verdict.FAILED:
            return _why_failed(session)


def _rest(session: Session) -> str:
    left = (session.coverage.ops or 0) - (session.coverage.compiled or 0)
    if session.coverage.compiled is None or not left:
        return "nothing left in eager"
    return f"{left} op{_s(left)} of {session.coverage.ops} outside of graphs"


def _part(session: Session) -> str:
    """Say how much of the work graphs hold, where it was measured."""
    ops, compiled = session.coverage.ops, session.coverage.compiled
    if ops is None or compiled is None:
        return "a part of it"
    return f"{compiled} of {ops} ops ({100 * compiled // ops if ops else 0} %)"


def _worst(session: Session) -> str:
    """Name the break that costs most, where there is more than one and the costs were measured."""
    found = ranked(session)
    if len(found) < 2 or not found[0].cost.ops:
        return ""
    worst, ops = found[0], found[0].cost.ops
    what = f"`{worst.at.expression}`" if worst.at.expression else f"line {worst.at.line}"
    where = f"{PurePath(worst.at.file).name}:{worst.at.line}"
    return f" {what} ({where}) costs most: {ops} op{_s(ops)} in eager."


def _wrong(session: Session) -> str:
    replaced = list(dict.fromkeys(_line_of(each) for each in wrong(session)))
    if replaced:
        return f" The attention at {', '.join(replaced[:3])} gives wrong results when compiled."
    return " Compiled code gives other results than eager." if session.dangers else ""


def _line_of(answer: Answer) -> str:
    """Name the line of an attention that something should be done at."""
    lines = (answer.attention.why and answer.attention.why.lines) or answer.attention.lines
    file, _, line = (lines[0] if lines else "").rpartition(":")
    return f"{PurePath(file).name}:{line}" if file else "a line that is not known"


def _why_partial(session: Session) -> str:
    breaks = sum(each.kind is BreakKind.BREAK for each in session.breaks)
    disabled = len(session.breaks) - breaks
    parts = [f"{len(session.graphs)} graph{_s(len(session.graphs))}"]
    if breaks:
        parts.append(f"{breaks} break{_s(breaks)}")
    if disabled:
        parts.append(f"{disabled} disabled call{_s(disabled)}")
    if session.skips:
        parts.append(f"{len(session.skips)} function{_s(len(session.skips))} left in eager")
    if session.limit.hit:
        parts.append("the recompile limit was hit, later calls run eagerly")
    return ", ".join(parts)


def _s(number: int) -> str:
    return "" if number == 1 else "s"


def _why_nothing(session: Session) -> str:
    if session.skips:
        skip = session.skips[0]
        return (
            f"{skip.function} was left in eager as a whole. {skip.reason if skip.break_index is None else ''}".rstrip()
        )
    if session.compilations:
        return "the compiled code holds no tensor operation."
    off = session.environment.switched_off
    return f"torch.compile is switched off by {off}." if off else "no compiled function was called."


def _why_failed(session: Session) -> str:
    failure = session.failure
    assert failure is not None
    what = f"{failure.type}: {failure.message.strip().partition(chr(10))[0]}"
    match failure.phase:
        case FailurePhase.TARGET:
            return failure.message
        case FailurePhase.LOAD:
            return f"The file raised while it was imported. {what}"
        case FailurePhase.EAGER:
            return f"The model raises without torch.compile. {what}"
        case FailurePhase.RUN if failure.type == "SystemExit":
            return f"The program exited with {failure.message}."
        case FailurePhase.RUN:
            return f"The run raised. {what}"
        case FailurePhase.INTERRUPT:
            return "The run was interrupted. What was seen until then:"
        case FailurePhase.CRASH | FailurePhase.TIMEOUT:
            return f"{failure.message[:1].upper()}{failure.message[1:]}. What was seen until then:"


def next_steps(session: Session) -> tuple[str, ...]:
    """Name up to three things to do, what costs most first."""
    steps: list[str] = []
    if session.failure is not None and session.failure.todo:
        steps.append(session.failure.todo)
    steps += [f"{kernel.kernel}: {note.todo}" for kernel, note in stuck(session)]
    steps += [f"{_line_of(each)}: {each.fix}" for each in wrong(session)]
    steps += [danger.fix for danger in session.dangers]
    breaks = (each.at for each in ranked(session) if each.skips or each.at.kind is BreakKind.BREAK)
    steps += [f"{PurePath(each.file).name}:{each.line}: {each.fix}" for each in breaks if each.fix]
    steps += [skip.fix for skip in lonely_skips(session)]
    steps += [group.fix for group in groups(session) if not group.expected or session.limit.hit]
    steps += [f"{_line_of(each)}: {each.fix}" for each in unfused(session) if each.can_be_fixed]
    if not steps and session.verdict is Verdict.COMPILED:
        steps.append(_healthy_step(session))
    return tuple(dict.fromkeys(step for step in steps if step))[:3]


def _healthy_step(session: Session) -> str:
    if gpu := target_of(session):
        if missing := not_emitted(session):
            return f"Read the problems: no code was emitted for {gpu.target} of {listed(missing)}."
        return f"Nothing to fix. Kernels were emitted for {gpu.target}; how long they take, only a run on it tells."
    if not session.environment.built and session.environment.backend == "inductor":
        return "Nothing to fix. Kernels were emitted, not built; --build compiles and runs them."
    return "Nothing to fix."

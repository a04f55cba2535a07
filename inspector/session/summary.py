"""Write the first lines of every screen (`first_lines`) and the first answers: a `sentence` on what happened, counts of
generated code, and what to do next (`next_steps`).

The first lines say what was cut off, and which scenarios did not run.
"""

from collections import Counter
from collections.abc import Mapping
from pathlib import PurePath
from typing import ClassVar, Literal, get_args

from msgspec import Struct

from ctrace.inspector.errors import telling_line
from ctrace.inspector.facts.findings import BreakKind
from ctrace.inspector.facts.outcome import NO_END_MARK, CutKind
from ctrace.inspector.facts.scenario_facts import Outcome
from ctrace.inspector.facts.session import Failure, FailurePhase, Problem, RunFacts, Session, Verdict
from ctrace.inspector.facts.target_gpu import Basis
from ctrace.inspector.facts.trial import later_calls_of
from ctrace.inspector.findings.breaks.break_view import lonely_skips, ranked
from ctrace.inspector.findings.fusion_totals import Totals, session_totals
from ctrace.inspector.findings.graphs.attention_view import AttentionGroup, unfused, wrong
from ctrace.inspector.findings.kernels.bounds import whole as least_of_run
from ctrace.inspector.findings.kernels.built_view import resources
from ctrace.inspector.findings.kernels.user_kernels_view import stuck
from ctrace.inspector.findings.missed_fusions import TopMissed, top_missed
from ctrace.inspector.findings.rank_classes import rank_sentence
from ctrace.inspector.findings.recompiles.recompile_view import groups
from ctrace.inspector.findings.target_gpu_view import listed, not_emitted, open_sentence, target_of, target_sentence
from ctrace.inspector.knowledge.counting import count, named

# Chosen: the verdict's lines; what to do has to stay on the first screen.
_MOST = 4


class RunAnswer(Struct, frozen=True):
    """What each view of a run begins with: the verdict, the run in one sentence, and what is not known."""

    verdict: Verdict
    is_at_first: bool
    """Whether the verdict holds for the first calls only."""
    is_cut: bool
    """Whether the run or its log ends too early."""
    target: str
    sentence: str
    failure: Failure | None
    cwd: str
    unknown: tuple[str, ...]
    rank: str
    """Which rank of a virtual job it is; empty without such a job."""
    gpu: str
    """What was generated for which GPU; empty without a target GPU."""


def run_answer(session: Session) -> RunAnswer:
    """Answer for a run."""
    return RunAnswer(
        verdict=session.verdict,
        is_at_first=session.verdict is Verdict.COMPILED and bool(hits_limit_later(session)),
        is_cut=bool(session.cut_off) or session.verdict is Verdict.INCOMPLETE,
        target=session.target.path or session.target.name or "this run",
        sentence=sentence(session),
        failure=session.failure,
        cwd=session.environment.cwd,
        unknown=first_lines(session),
        rank=rank_sentence(session),
        gpu=target_sentence(session),
    )


def first_lines(session: Session) -> tuple[str, ...]:
    """Say what is not known about a run, and why, one sentence per line; empty for a complete run."""
    lines = [_evidence(each.what, each.unknown) for each in session.cut_off[:_MOST]]
    lines += [_evidence(each.what) for each in _doubts(session)[:_MOST]]
    left = len(session.cut_off[_MOST:]) + len(_doubts(session)[_MOST:])
    if left > 0:
        lines += [f"And {left} more, in the JSON report."]
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
    return f"{named(len(names), 'scenario')} {', '.join(names)}"


LeftOut = Literal["kernels", "fusion", "attention", "backward graphs", "sizes that Inductor specializes"]
LEFT_OUT: tuple[LeftOut, ...] = get_args(LeftOut)
"""What a run with `--fast` does not show."""


class FusionSummary(Struct, frozen=True):
    """Fusion over all graph parts: the most rounds (without the reorder pass), and the nodes before and after."""

    JSON: ClassVar[str] = (
        "basis=BASIS bases=BASES rounds nodes_before=before nodes_after=after bytes_unfused=moved.unfused "
        "bytes_fused=moved.fused bytes_least=moved.least missed"
    )
    BASIS: ClassVar[Basis] = Basis.EMITTED
    BASES: ClassVar[dict[str, Basis]] = dict.fromkeys(("bytes_unfused", "bytes_fused", "bytes_least"), Basis.COMPUTED)
    rounds: int
    before: int
    after: int
    moved: Totals | None
    missed: TopMissed | None


def fusion_summary(session: Session) -> FusionSummary | None:
    """Sum up fusion over graph parts; return None if no graph went through Inductor's scheduler."""
    if not session.fusions:
        return None
    return FusionSummary(
        max(sum(not each.reorder for each in fusion.rounds) for fusion in session.fusions),
        sum(fusion.before for fusion in session.fusions),
        sum(fusion.after for fusion in session.fusions),
        session_totals(session),
        top_missed(session),
    )


class CodeTotals(Struct, frozen=True):
    """The code of all graphs together."""

    graphs: int
    languages: Mapping[str, int]
    """How many kernels there are in each language, most first."""
    fusion: FusionSummary | None = None
    least: float | None = None
    """The lower bound on one run of all graph parts on the target GPU, in seconds; None: not known."""
    compiled: int = 0
    """How many kernels Triton compiled."""
    spilling: int = 0
    """How many of these spill registers."""
    left_open: str = ""
    """The choices that need the device; empty: there are none."""


def code_totals(session: Session, *, whole: bool = True) -> CodeTotals:
    """Sum up the code of a run; without `whole`, only count graphs and kernels."""
    languages = dict(Counter(kernel.language for kernel in session.kernels).most_common())
    if not whole:
        return CodeTotals(len(session.graphs), languages)
    known = [each.built for each in resources(session) if each.built.spills is not None]
    return CodeTotals(
        graphs=len(session.graphs),
        languages=languages,
        fusion=fusion_summary(session),
        least=least_of_run(session) if target_of(session) else None,
        # A kernel with several configurations is one kernel.
        compiled=len({(each.graph, each.stage, each.kernel) for each in known}),
        spilling=len({(each.graph, each.stage, each.kernel) for each in known if each.spills}),
        left_open=open_sentence(session),
    )


def fast_sentence() -> str:
    """Say what a fast run skipped."""
    return f"Fast run: graphs were not lowered, so {', '.join(LEFT_OUT[:-1])} and {LEFT_OUT[-1]} are not shown."


def guard_count(session: Session) -> int | None:
    """Sum up the guards of all compilations; return None if the log has no counts."""
    counts = [compilation.guards for compilation in session.compilations if compilation.guards is not None]
    if not counts:
        return None
    return sum(counts)


def sentence(session: Session) -> str:
    """Say what happened, verdict first."""
    match session.verdict:
        case Verdict.COMPILED:
            took = _whole(session)
            return f"{took}{_wrong(session)}{_exited(session)}"
        case Verdict.PARTIAL:
            took = f"{_part(session)}: {_why_partial(session)}."
            return f"{took}{_worst(session)}{hits_limit_later(session)}{_wrong(session)}{_exited(session)}"
        case Verdict.NOT_COMPILED:
            return f"Nothing was compiled: {_why_nothing(session)}{_exited(session)}"
        case Verdict.FAILED:
            return f"{_why_failed(session)}{_exited(session)}"
        case Verdict.INCOMPLETE:
            return _why_incomplete(session)


def _exited(session: Session) -> str:
    """If the program ended its own process, say up to where the run is recorded."""
    if not session.exited:
        return ""
    last = "it started"
    if session.compilations:
        last = f"compilation {session.compilations[-1].id}"
    return f" The program ended itself with {session.exited}, so nothing after {last} is recorded."


def _why_incomplete(session: Session) -> str:
    """Say what cut the run off, and what the log shows until then, without a verdict."""
    failure = session.failure
    if failure is not None:
        why = "The run was interrupted"
        if failure.phase is not FailurePhase.INTERRUPT:
            why = _capitalized(failure.message)
    elif session.stopped is not None:
        why = "A call stopped for lack of a value"
    else:
        why = "The log is incomplete"
    under_way = being_compiled(session)
    during = ""
    if under_way and failure is not None:
        during = f" while {', '.join(under_way[:3])} was compiling"
    graphs = count(len(session.graphs), "graph")
    return f"{why}{during}, so there is no verdict on the whole run. Seen until then: {graphs}, {_found(session)}."


def _found(session: Session) -> str:
    breaks, recompiles = len(session.breaks), len(session.recompiles)
    return f"{count(breaks, 'graph break')}, {count(recompiles, 'recompilation')}"


def _capitalized(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def _whole(session: Session) -> str:
    """Say that no graph breaks, and whether ops run outside of graphs, such as those around a compiled function."""
    graphs = count(len(session.graphs), "graph")
    ops, compiled = session.coverage.ops or 0, session.coverage.compiled
    left = 0
    if compiled is not None:
        left = ops - compiled
    if later := hits_limit_later(session):
        return f"Fully compiled at first: {graphs}, no graph breaks.{later}"
    if not left:
        return f"Fully compiled: {graphs}, no graph breaks, nothing falls back to eager."
    return f"{_part(session)}: {graphs}, no graph breaks; {count(left, 'op')} {named(left, 'runs', 'run')} eagerly."


def hits_limit_later(session: Session) -> str:
    """Say that later calls hit the recompile limit, which those that the run counts did not; empty if not."""
    later = later_calls_of(session.trials)
    if later is None or not later.limit_hit or session.limit.hit:
        return ""
    return f" Within {later.calls} calls, the recompile limit is hit, and calls fall back to eager."


def _part(session: Session) -> str:
    """Say how many ops are in graphs, if measured."""
    ops, compiled = session.coverage.ops, session.coverage.compiled
    if ops is None or compiled is None:
        return "Partly compiled"
    percent = 0
    if ops:
        # Rounded down, so that 100% means all of them.
        percent = 100 * compiled // ops
    return f"{compiled} of {ops} {named(ops, 'op')} compiled ({percent}%)"


def _worst(session: Session) -> str:
    """Name the break that costs most, if there are several, their costs were measured, and no other costs as much."""
    found = ranked(session)
    if len(found) < 2 or not found[0].cost.ops:
        return ""
    worst, ops = found[0], found[0].cost.ops
    # On a tie, to name one of them would send the user to the wrong line as often as not.
    if found[1].cost.ops == ops:
        return ""
    if worst.at.expression:
        what = f"`{worst.at.expression}`"
    else:
        what = f"Line {worst.at.line}"
    where = f"{PurePath(worst.at.file).name}:{worst.at.line}"
    return f" {what} ({where}) costs most: {count(ops, 'op')} {named(ops, 'runs', 'run')} eagerly."


def _wrong(session: Session) -> str:
    replaced = list(dict.fromkeys(_line_of(each) for each in wrong(session)))
    if replaced:
        return f" The attention at {', '.join(replaced[:3])} returns wrong results when compiled."
    if session.dangers:
        return " Compiled code and eager return different results."
    return ""


def _line_of(answer: AttentionGroup) -> str:
    """Return the line of an attention that the user should change."""
    # The obstacle's line, e.g. that of a mask, is the one to change; the attention itself may be right.
    lines = (answer.attention.why and answer.attention.why.lines) or answer.attention.lines
    if lines:
        file, _, line = lines[0].rpartition(":")
        if file:
            return f"{PurePath(file).name}:{line}"
    return "an unknown line"


def _why_partial(session: Session) -> str:
    breaks = sum(each.kind is BreakKind.BREAK for each in session.breaks)
    disabled = len(session.breaks) - breaks
    parts = _split(session, breaks)
    if disabled:
        parts.append(count(disabled, "disabled call"))
    if session.skips:
        skips = len(session.skips)
        parts.append(f"{count(skips, 'function')} {named(skips, 'runs', 'run')} eagerly")
    if session.limit.hit:
        parts.append("the recompile limit was hit, so later calls run eagerly")
    before, comma = ", ".join(parts[:-1]), "," if len(parts) > 2 else ""
    if before:
        return f"{before}{comma} and {parts[-1]}"
    return parts[-1]


def _split(session: Session, breaks: int) -> list[str]:
    """Say how breaks split the model; if recompilations also add graphs, only count breaks and graphs."""
    graphs = count(len(session.graphs), "graph")
    is_model, found = bool(session.scenarios), count(breaks, "graph break")
    # A program may have graphs that no break separates, such as those of two compiled functions.
    if breaks and is_model and len(session.graphs) > 1 and not session.recompiles:
        return [f"{found} {named(breaks, 'splits', 'split')} the model into {graphs}"]
    if breaks:
        return [found, graphs]
    return [graphs]


def _why_nothing(session: Session) -> str:
    if session.skips:
        skip = session.skips[0]
        whole = "all of " if skip.outcome == "runs eagerly" else ""
        text = f"{whole}{skip.function} {skip.outcome}."
        if skip.break_index is None and skip.reason:  # a break has its own line, with its reason
            text += f" {skip.reason}"
        return text.rstrip()
    if session.compilations:
        return "the compiled code contains no tensor operations."
    off = session.environment.switched_off
    if off:
        return f"torch.compile is switched off by {off}."
    return "no compiled function was called."


def _why_failed(session: Session) -> str:
    failure = session.failure
    assert failure is not None
    what = f"{failure.type}: {telling_line(failure.message)}"
    match failure.phase:
        case FailurePhase.TARGET:
            return failure.message
        # A program that calls sys.exit() has not raised in the eyes of its author.
        case FailurePhase.RUN | FailurePhase.LOAD if failure.type == "SystemExit":
            return _why_left(failure.message)
        case FailurePhase.LOAD:
            return f"Loading the file, its model or its inputs raised an exception. {what}"
        case FailurePhase.EAGER:
            return f"A call raises an exception without torch.compile, too. {what}"
        case FailurePhase.RUN:
            return f"The run raised an exception. {what}"
        case FailurePhase.INTERRUPT:
            return "The run was interrupted." + _until_then(session)
        case FailurePhase.CRASH | FailurePhase.TIMEOUT:
            return f"{_capitalized(failure.message)}." + _until_then(session)


def _until_then(session: Session) -> str:
    if session.compilations or session.skips:
        return " Seen until then:"
    return ""


def _why_left(message: str) -> str:
    by_program = message.startswith("exit code ")
    if by_program:
        return f"The program exited with {message}."
    return f"{_capitalized(message)}."


def next_steps(session: Session) -> tuple[str, ...]:
    """Return up to three things to do, most important first."""
    steps: list[str] = []
    # In order: what keeps the run from its end, what does not run, what is wrong, then what costs time.
    if session.failure is not None and session.failure.todo:
        steps.append(session.failure.todo)
    steps += [f"{kernel.kernel}: {note.todo}" for kernel, note in stuck(session)]
    steps += [f"{_line_of(each)}: {each.fix}" for each in wrong(session)]
    steps += [danger.fix for danger in session.dangers]
    breaks = (each.at for each in ranked(session) if each.skips or each.at.kind is BreakKind.BREAK)
    steps += [f"{PurePath(each.file).name}:{each.line}: {each.fix}" for each in breaks if each.fix]
    steps += [skip.fix for skip in lonely_skips(session.skips)]
    steps += [group.fix for group in groups(session) if not group.expected or session.limit.hit]
    steps += [f"{_line_of(each)}: {each.fix}" for each in unfused(session) if each.can_be_fixed]
    # Advice on half a run may be about the wrong half.
    if session.cut_off:
        if session.stopped is None:
            first = _cut_step(session)
        else:
            first = session.stopped.todo
        steps.insert(0, first)
    # "Nothing to fix" claims something about the whole run.
    if not steps and session.verdict is Verdict.COMPILED and is_whole(session):
        steps.append(_healthy_step(session))
    if not steps and session.verdict is Verdict.NOT_COMPILED and session.coverage.ops == 0 and is_whole(session):
        steps.append("Nothing to compile here: with these inputs and in this mode, it runs no tensor operation.")
    return tuple(dict.fromkeys(step for step in steps if step))[:3]


def _cut_step(session: Session) -> str:
    if session.environment.ctrace:
        return "Run it again to the end; the missing part may matter most."
    return "Take the log after the job has ended, or find out what ended it; the missing part may matter most."


def _healthy_step(session: Session) -> str:
    if gpu := target_of(session):
        if missing := not_emitted(session):
            return f"Read the problems: no code was generated for {gpu.target} of {listed(missing)}."
        return f"Nothing to fix. Kernels were generated for {gpu.target}; their times need a run on that GPU."
    if not session.environment.built and session.environment.backend == "inductor":
        return "Nothing to fix. Kernels were generated, not built; --build compiles and runs them."
    return "Nothing to fix."

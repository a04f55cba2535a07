"""Find functions that run eagerly, each with the break or the rule that caused this (`skips_of`).

These are the user's functions, and functions of libraries that run tensor operations themselves. `costs.py` computes
what each of them costs.
"""

from collections.abc import Container, Iterator

from ctrace.inspector.facts.findings import Break, Frame, Owner, Skip
from ctrace.inspector.facts.run_events import MetricsMeasured
from ctrace.inspector.facts.session import Failure
from ctrace.inspector.findings.breaks.break_fold import Report
from ctrace.inspector.findings.functions import Codes, Key, place_of
from ctrace.inspector.knowledge.advice import entries
from ctrace.inspector.log.collected_log import CollectedLog
from ctrace.inspector.source.constructs import construct_at
from ctrace.inspector.source.owners import owner_of
from ctrace.inspector.source.stacks import resumed

_GENERATOR = "generator"
_ALWAYS = frozenset((_GENERATOR, "dispatch_mode", "switched_off"))
"""Rules whose functions run tensor operations in eager; a generator that is known to run none is left out."""
_HARMLESS = frozenset(("no_ops", "no_tensor", "disabled", "excluded", "skipfile"))
"""Rules that matter only if the user compiles the function itself, or if it runs tensor operations."""
_EMPTY = "no_ops"
"""The rule for a trace without operations."""
_HIDDEN = {"no_tensor": "hidden_tensor", "excluded": "excluded", "skipfile": "skipfile"}
"""For a function that runs tensor operations, the rule to report in place of its rule."""
_TRACED_AWAY = "traced_away"
"""Reported in place of the rule for a trace without operations, if the function runs tensor operations."""


def skips_of(
    raw: CollectedLog, codes: Codes, reports: tuple[Report, ...], breaks: tuple[Break, ...], failure: Failure | None
) -> tuple[Skip, ...]:
    """Find the functions that Dynamo gave up or skipped; leave out a function whose failure ended the run."""
    busy = {codes.key(each.stack[-1]) for counted in raw.ops for each in counted.stacks if each.stack}
    skips: dict[tuple[str, str, int], Skip] = {}
    # A function that failed may be left alone in later calls, too: the failure, which has a reason, comes first and
    # stays.
    for skip in (*_given_up(raw, codes, busy, reports, breaks, failure), *_left_alone(raw, codes, busy, failure)):
        skips.setdefault((skip.function, skip.file, skip.line), skip)
    return tuple(skips.values())


def _given_up(
    raw: CollectedLog,
    codes: Codes,
    busy: Container[Key],
    reports: tuple[Report, ...],
    breaks: tuple[Break, ...],
    failure: Failure | None,
) -> Iterator[Skip]:
    """Yield functions whose compilation failed."""
    failed = [id_ for id_, measured in raw.metrics.items() if measured.fail_type]
    for compile_id in failed:
        measured, start = raw.metrics[compile_id], raw.starts.get(compile_id)
        ended_run = failure is not None and compile_id == failed[-1] and _is_same(failure, measured)
        # A full cache has a view of its own, and an error that ended the run is the first line of the report.
        if measured.is_limit or ended_run or start is None or not start.stack:
            continue
        frame = start.stack[-1]
        file, function = raw.files.get(frame.file, "?"), resumed(frame.name)[0]
        owner = owner_of(file, raw.prefixes)
        # A library's function matters to the user only if it costs something.
        if owner is Owner.USER or (owner is Owner.LIBRARY and codes.key(Frame(file, frame.line, function)) in busy):
            skip = Skip(function, file, frame.line, "")
            first = next((report for report in reports if report.compilation == compile_id), None)
            if first is None:
                yield _by_failure(raw, skip, measured)
            else:
                yield _by_break(raw, codes, skip, first, breaks)


def _is_same(failure: Failure, measured: MetricsMeasured) -> bool:
    """Whether a compilation failed with the error that ended the run; Dynamo wraps errors (convert_frame.py, 2.11)."""
    return failure.type in (measured.fail_type or "") or failure.type == "InternalTorchDynamoError"


def _by_break(raw: CollectedLog, codes: Codes, skip: Skip, report: Report, breaks: tuple[Break, ...]) -> Skip:
    cause = breaks[report.site]
    at = _frame_in(codes, skip, report.parsed.frames)
    rule = "loop"
    # Of all blocks, torch names only loops in a report (`raise_loop_graph_break`, 2.13); others come from the source.
    if not report.parsed.in_loop:
        rule = _block_around(raw, at)
    known = entries("skips")[rule]
    where = "the break"
    if at is not None:
        where = f"the break (line {at.line})"
    why = known.why.replace("{it}", where)
    fix = known.fix
    if cause.fix:
        fix = f"{cause.fix} Or {known.fix[:1].lower()}{known.fix[1:]}"
    return Skip(
        function=skip.function,
        file=skip.file,
        line=skip.line,
        reason=f"{why[:1].upper()}{why[1:]}",
        break_index=report.site,
        rule=rule,
        fix=fix,
    )


def _frame_in(codes: Codes, skip: Skip, frames: tuple[Frame, ...]) -> Frame | None:
    """Find the line at which a function was when the function, or a function that it called, broke."""
    function = codes.key(Frame(skip.file, skip.line, skip.function))
    return next((frame for frame in frames if codes.key(frame) == function and frame.line >= skip.line), None)


def _block_around(raw: CollectedLog, at: Frame | None) -> str:
    if at is None:
        return "unresumable"
    around = construct_at(raw.listings.get(at.file, ""), at.line, at.span).around
    if around:
        return {"for": "loop", "while": "loop"}.get(around[0], around[0])
    return "unresumable"


def _by_failure(raw: CollectedLog, skip: Skip, measured: MetricsMeasured) -> Skip:
    """Describe a failure for which torch reported no break: torch suppressed it, or the program got the error."""
    suppressed = any((left.file, left.name, left.rule) == (skip.file, skip.function, "failed") for left in raw.left)
    if raw.environment.get("ctrace"):
        rule = "failed" if suppressed else "raised"
    else:  # torch alone does not log what fell back to eager
        rule = {True: "failed", False: "thrown", None: "unclear"}[measured.suppresses]
    first = (measured.fail_reason or "").strip().partition("\n")
    reason = " ".join(f"{first[0]} {first[2]}".split()) or "torch logs no reason"
    known = entries("skips")[rule]
    return Skip(skip.function, skip.file, skip.line, f"{known.why} Torch says: {reason}", None, rule, known.fix)


def _running(raw: CollectedLog, codes: Codes) -> set[Key] | None:
    """Return the functions that run ops outside of graphs, or call what does; None: not measured in every scenario."""
    if not raw.ops or any(counted.left is None for counted in raw.ops):
        return None
    return {key for counted in raw.ops for each in counted.stacks for key in codes.keys(each.stack)}


def _compiled(raw: CollectedLog, codes: Codes) -> set[Key]:
    """Return the functions that have a graph."""
    places = [place_of(raw, compile_id) for compile_id in raw.graphs]
    return {codes.key(Frame(each.file, each.begins, each.function)) for each in places if each.resumes_at is None}


def _left_alone(raw: CollectedLog, codes: Codes, busy: Container[Key], failure: Failure | None) -> Iterator[Skip]:
    """Yield functions that Dynamo did not try to compile; torch logs no entry for most of them.

    With `fullgraph`, torch may raise for one (2.13) or continue in eager (2.11).
    """
    compiled = _compiled(raw, codes)
    running = _running(raw, codes)
    for left in raw.left:
        key = codes.key(Frame(left.file, left.line, left.name))
        ended_run = left.fullgraph and failure is not None
        if ended_run or resumed(left.name)[1] is not None or owner_of(left.file, raw.prefixes) is not Owner.USER:
            continue
        if left.rule == _EMPTY and key in compiled:
            continue  # one of its calls runs no operation, as where a cache is filled: the others are compiled
        if left.rule == _GENERATOR and running is not None and key not in running:
            continue  # Python runs it because its caller has nothing to compile, either
        was_asked_for = left.rule in _HARMLESS and codes.is_root(key, codes.keys(left.stack[:-1]))
        hidden = None
        if key in busy:
            hidden = _HIDDEN.get(left.rule)
        if left.rule in _ALWAYS or was_asked_for or hidden:
            rule = hidden or left.rule
            if rule == _EMPTY and key in busy:
                rule = _TRACED_AWAY
            known = entries("skips")[rule].about(left.name)
            yield Skip(left.name, left.file, left.line, known.why, None, rule, known.fix)

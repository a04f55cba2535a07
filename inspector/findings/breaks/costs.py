"""What each break and skip costs: aten ops that run eagerly because of it, and the graphs that it adds.

An eager op counts for the innermost frame on its stack that is at a break or in a skipped function. Each graph after
the first counts for the break at the line where its function was called or resumed.

List the functions of a run, with the number of their graphs and of their ops in graphs.

Find functions that run eagerly, each with the break or the rule that caused this: the user's functions, and
functions of libraries that run tensor operations themselves.
"""

from collections import Counter
from collections.abc import Container, Iterable, Iterator

from msgspec import Struct, field
from msgspec.structs import replace

from ctrace.inspector.facts.findings import Break, Cost, Frame, Owner, Skip
from ctrace.inspector.facts.run_events import MetricsMeasured, OpsCounted
from ctrace.inspector.facts.session import Coverage, Failure, Function, Graph, Scenario
from ctrace.inspector.findings.breaks.break_fold import BreakOutcome, Report
from ctrace.inspector.findings.functions import Codes, Key, place_of
from ctrace.inspector.knowledge.advice import entries
from ctrace.inspector.log.raw import Raw
from ctrace.inspector.source.constructs import construct_at
from ctrace.inspector.source.owners import owner_of
from ctrace.inspector.source.stacks import resumed

_Line = tuple[str, int]


class _Owners(Struct):
    """Which break or skip, by index, is responsible for a line or a function."""

    codes: Codes
    breaks_at: dict[_Line, int] = field(default_factory=dict)
    breaks_in: dict[Key, int] = field(default_factory=dict)
    skips_in: dict[Key, int] = field(default_factory=dict)


class _Tally(Struct):
    """The counts so far, keyed by the index of the break or skip."""

    breaks: Counter[int] = field(default_factory=Counter)
    skips: Counter[int] = field(default_factory=Counter)

    def add(self, owners: _Owners, stack: Iterable[Frame], number: int) -> None:
        """Add a number to the break or skip that is responsible for the innermost frame for which one is."""
        # The line of a break explains more than the function that is left in eager because of it.
        for frame in reversed(tuple(stack)):
            key = owners.codes.key(frame)
            if (site := owners.breaks_at.get((frame.file, frame.line))) is not None:
                self.breaks[site] += number
                return
            if (skip := owners.skips_in.get(key)) is not None:
                self.skips[skip] += number
                return
            if (site := owners.breaks_in.get(key)) is not None:
                self.breaks[site] += number
                return


def with_costs(
    raw: Raw, codes: Codes, reports: tuple[Report, ...], breaks: tuple[Break, ...], skips: tuple[Skip, ...]
) -> tuple[tuple[Break, ...], tuple[Skip, ...]]:
    """Set the cost of each break and skip; `ops` is None if no eager run was counted."""
    owners = _owners(raw, codes, reports, skips)
    ops, graphs = _Tally(), _Tally()
    for counted in raw.ops:
        for left in counted.stacks:
            ops.add(owners, left.stack, left.ops)
    for stack in _added_graphs(raw, codes):
        graphs.add(owners, stack, 1)
    measured = any(counted.left is not None for counted in raw.ops)

    def cost(ops: int, graphs: int) -> Cost:
        return Cost(ops if measured else None, graphs)

    return (
        tuple(replace(each, cost=cost(ops.breaks[at], graphs.breaks[at])) for at, each in enumerate(breaks)),
        tuple(replace(each, cost=cost(ops.skips[at], graphs.skips[at])) for at, each in enumerate(skips)),
    )


def _owners(raw: Raw, codes: Codes, reports: tuple[Report, ...], skips: tuple[Skip, ...]) -> _Owners:
    owners = _Owners(codes)
    for at, skip in enumerate(skips):
        owners.skips_in[codes.key(Frame(skip.file, skip.line, skip.function))] = at
    for report in reports:
        for frame in _inside(report, raw, codes):
            key = codes.key(frame)
            if key not in owners.skips_in:  # a function that is skipped as a whole costs that, wherever it broke
                owners.breaks_at.setdefault((frame.file, frame.line), report.site)
                if report.parsed.outcome is BreakOutcome.REST_IN_EAGER:
                    owners.breaks_in.setdefault(key, report.site)
    return owners


def _inside(report: Report, raw: Raw, codes: Codes) -> tuple[Frame, ...]:
    """Return the frames of a report from the compiled function inwards; its callers have no part in the break."""
    place = place_of(raw, report.compilation)
    root = codes.key(Frame(place.file, place.begins, place.function))
    frames = report.parsed.frames
    start = next((at for at, frame in enumerate(frames) if codes.key(frame) == root), len(frames) - 1)
    return frames[start:]


def _added_graphs(raw: Raw, codes: Codes) -> Iterable[tuple[Frame, ...]]:
    """Yield the callers' stack for each graph that exists only because of a break or skip.

    Without breaks and skips, one call would run one graph, so the first graph of a call does not count. Nor do graphs
    of recompilations.
    """
    seen: set[str] = set()
    entered: set[Key] = set()
    for compile_id in raw.graphs:
        frame_id = compile_id.partition("/")[0]
        code = raw.bytecode.get(compile_id)
        if frame_id in seen or code is None:
            continue
        seen.add(frame_id)  # what follows under the same number are recompilations
        mine = codes.key(Frame(code.file, code.line, code.name))
        # All graphs below the outermost compiled function belong to one call of it.
        entry = next((key for key in codes.keys(code.callers) if codes.is_met(key)), mine)
        if entry in entered:
            yield code.callers
        entered.add(entry)


class _Place(Struct, frozen=True):
    """A code object: file, qualified name, first line."""

    file: str
    name: str
    line: int

    @property
    def key(self) -> Key:
        return self.file, self.name.rpartition(".")[2], self.line


def coverage_of(counted: OpsCounted) -> Coverage:
    """Return how many ops of one eager call are in graphs when the call is compiled."""
    if counted.left is None:
        return Coverage(counted.eager)
    return Coverage(counted.eager, max(counted.eager - counted.left, 0))


def total(coverages: list[Coverage]) -> Coverage:
    """Return the sum of the coverage over the measured scenarios; unknown if none was measured."""
    measured = [each for each in coverages if each.ops is not None]
    if not measured:
        return Coverage()
    compiled = [each.compiled for each in measured]
    # Of one scenario not known, the share of all of them is not known, either.
    ops = sum(each.ops or 0 for each in measured)
    if None in compiled:
        return Coverage(ops)
    return Coverage(ops, sum(each or 0 for each in compiled))


def with_coverage(raw: Raw, scenarios: tuple[Scenario, ...]) -> tuple[Scenario, ...]:
    """Add the coverage to each measured scenario."""
    counted = {each.scenario: coverage_of(each) for each in raw.ops}
    return tuple(replace(each, coverage=counted.get(each.name, Coverage())) for each in scenarios)


def functions_of(raw: Raw, codes: Codes, graphs: tuple[Graph, ...]) -> tuple[Function, ...]:
    """List the functions outside of torch that Dynamo processed, or whose ops were counted."""
    ops, left = _eager_ops(raw), _left_ops(raw, codes)
    own_graphs = Counter(codes.key(Frame(graph.file, graph.line, graph.function)) for graph in graphs)
    roots = _roots(raw, codes)
    measured = any(each.left is not None for each in raw.ops)

    def coverage(key: Key) -> Coverage:
        if measured:
            return _coverage(ops[key], left[key])
        return Coverage(ops.get(key))

    return tuple(
        Function(
            name=place.name,
            file=place.file,
            line=place.line,
            graphs=own_graphs[place.key],
            coverage=coverage(place.key),
            compiled_for_itself=place.key in roots,
        )
        for place in _places(raw)
    )


def _coverage(ops: int, left: int) -> Coverage:
    return Coverage(ops, max(ops - left, 0))


def _places(raw: Raw) -> list[_Place]:
    """List each function once: those that were compiled, skipped or counted."""
    places = [_Place(each.file, each.name, each.line) for counted in raw.ops for each in counted.functions]
    places += [_Place(each.file, each.qualname, each.line) for each in raw.left if resumed(each.name)[1] is None]
    for compile_id in raw.seen:
        place = place_of(raw, compile_id)
        if place.resumes_at is None:
            name, code = place.function, raw.bytecode.get(compile_id)
            if code is not None and (code.file, code.line) == (place.file, place.line):
                name = code.qualname
            places.append(_Place(place.file, name, place.line))
    # The first one has the qualified name, which a compilation alone may lack.
    found: dict[Key, _Place] = {}
    for each in places:
        if owner_of(each.file, raw.prefixes) is not Owner.TORCH:
            found.setdefault(each.key, each)
    return list(found.values())


def _eager_ops(raw: Raw) -> Counter[Key]:
    ops: Counter[Key] = Counter()
    for counted in raw.ops:
        for each in counted.functions:
            ops[_Place(each.file, each.name, each.line).key] += each.ops
    return ops


def _left_ops(raw: Raw, codes: Codes) -> Counter[Key]:
    """Count eager ops by innermost function."""
    left: Counter[Key] = Counter()
    for counted in raw.ops:
        for each in counted.stacks:
            if each.stack:
                left[codes.key(each.stack[-1])] += each.ops
    return left


def _roots(raw: Raw, codes: Codes) -> set[Key]:
    stacks = [(*code.callers, Frame(code.file, code.line, code.name)) for code in raw.bytecode.values()]
    stacks += [each.stack for each in raw.left if each.stack]
    keyed = [codes.keys(stack) for stack in stacks]
    return {keys[-1] for keys in keyed if codes.is_root(keys[-1], keys[:-1])}


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
    raw: Raw, codes: Codes, reports: tuple[Report, ...], breaks: tuple[Break, ...], failure: Failure | None
) -> tuple[Skip, ...]:
    """Find the functions that Dynamo gave up or skipped; leave out a function whose failure ended the run."""
    busy = {codes.key(each.stack[-1]) for counted in raw.ops for each in counted.stacks if each.stack}
    skips: dict[tuple[str, str, int], Skip] = {}
    for skip in (*_given_up(raw, codes, busy, reports, breaks, failure), *_left_alone(raw, codes, busy, failure)):
        skips.setdefault((skip.function, skip.file, skip.line), skip)
    return tuple(skips.values())


def _given_up(
    raw: Raw,
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


def _by_break(raw: Raw, codes: Codes, skip: Skip, report: Report, breaks: tuple[Break, ...]) -> Skip:
    cause = breaks[report.site]
    at = _frame_in(codes, skip, report.parsed.frames)
    rule = "loop"
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


def _block_around(raw: Raw, at: Frame | None) -> str:
    if at is None:
        return "unresumable"
    around = construct_at(raw.listings.get(at.file, ""), at.line, at.span).around
    if around:
        return {"for": "loop", "while": "loop"}.get(around[0], around[0])
    return "unresumable"


def _by_failure(raw: Raw, skip: Skip, measured: MetricsMeasured) -> Skip:
    """Describe a failure for which torch reported no break: torch suppressed it, or the program got the error."""
    suppressed = any((left.file, left.name, left.rule) == (skip.file, skip.function, "failed") for left in raw.left)
    if raw.environment.get("ctrace"):
        rule = "failed" if suppressed else "raised"
    else:  # torch alone does not log what it left in eager
        rule = {True: "failed", False: "thrown", None: "unclear"}[measured.suppresses]
    first = (measured.fail_reason or "").strip().partition("\n")
    reason = " ".join(f"{first[0]} {first[2]}".split()) or "torch logs no reason"
    known = entries("skips")[rule]
    return Skip(skip.function, skip.file, skip.line, f"{known.why} Torch says: {reason}", None, rule, known.fix)


def _running(raw: Raw, codes: Codes) -> set[Key] | None:
    """Return the functions that run ops outside of graphs, or call what does; None: not measured in every scenario."""
    if not raw.ops or any(counted.left is None for counted in raw.ops):
        return None
    return {key for counted in raw.ops for each in counted.stacks for key in codes.keys(each.stack)}


def _compiled(raw: Raw, codes: Codes) -> set[Key]:
    """Return the functions that have a graph."""
    places = [place_of(raw, compile_id) for compile_id in raw.graphs]
    return {codes.key(Frame(each.file, each.begins, each.function)) for each in places if each.resumes_at is None}


def _left_alone(raw: Raw, codes: Codes, busy: Container[Key], failure: Failure | None) -> Iterator[Skip]:
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

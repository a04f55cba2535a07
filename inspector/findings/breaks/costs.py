"""What each break and skip costs (`with_costs`): aten ops that run eagerly because of it, and the graphs that it adds.

An eager op counts for the innermost frame on its stack that is at a break or in a skipped function. Each graph after
the first counts for the break at the line where its function was called or resumed.
"""

from collections import Counter
from collections.abc import Iterable

from msgspec import Struct, field
from msgspec.structs import replace

from ctrace.inspector.facts.findings import Break, Cost, Frame, Skip
from ctrace.inspector.findings.breaks.break_fold import BreakOutcome, Report
from ctrace.inspector.findings.functions import Codes, Key, place_of
from ctrace.inspector.log.collected_log import CollectedLog

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
        # The line of a break explains more than the function that falls back to eager because of it.
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
    raw: CollectedLog, codes: Codes, reports: tuple[Report, ...], breaks: tuple[Break, ...], skips: tuple[Skip, ...]
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


def _owners(raw: CollectedLog, codes: Codes, reports: tuple[Report, ...], skips: tuple[Skip, ...]) -> _Owners:
    owners = _Owners(codes)
    for at, skip in enumerate(skips):
        owners.skips_in[codes.key(Frame(skip.file, skip.line, skip.function))] = at
    for report in reports:
        for frame in _inside(report, raw, codes):
            key = codes.key(frame)
            if key not in owners.skips_in:  # a function that is skipped as a whole costs that, wherever it broke
                # The first report of a line keeps its ops, so that none counts for two breaks.
                owners.breaks_at.setdefault((frame.file, frame.line), report.site)
                if report.parsed.outcome is BreakOutcome.REST_IN_EAGER:
                    owners.breaks_in.setdefault(key, report.site)
    return owners


def _inside(report: Report, raw: CollectedLog, codes: Codes) -> tuple[Frame, ...]:
    """Return the frames of a report from the compiled function inwards; its callers have no part in the break."""
    place = place_of(raw, report.compilation)
    root = codes.key(Frame(place.file, place.begins, place.function))
    frames = report.parsed.frames
    start = next((at for at, frame in enumerate(frames) if codes.key(frame) == root), len(frames) - 1)
    return frames[start:]


def _added_graphs(raw: CollectedLog, codes: Codes) -> Iterable[tuple[Frame, ...]]:
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

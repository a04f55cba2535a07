"""What each break and skip costs: aten ops that stay in eager because of it, and graphs that are there only for it.

An op left in eager belongs to the innermost frame that led to it and stands where a break is, or in a function that was
left in eager. A graph belongs to the break at whose line its function was called, or resumed.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from ctrace.inspector.breaks import Report
from ctrace.inspector.model import Break, Cost, Frame, Skip
from ctrace.inspector.raw import Raw
from ctrace.inspector.roots import Key
from ctrace.inspector.sites import Outcome, resumed

_Line = tuple[str, int]


@dataclass
class _Owners:
    """Who is to blame for what happens at a line, or in a function: the index of a break, or of a skip."""

    breaks_at: dict[_Line, int] = field(default_factory=dict)
    breaks_in: dict[Key, int] = field(default_factory=dict)
    skips_in: dict[Key, int] = field(default_factory=dict)


@dataclass
class _Bill:
    """What was counted so far, by index."""

    breaks: Counter[int] = field(default_factory=Counter)
    skips: Counter[int] = field(default_factory=Counter)

    def add(self, owners: _Owners, stack: Iterable[Frame], number: int) -> None:
        """Charge the innermost frame that has an owner; what none has is nobody's."""
        for frame in reversed(tuple(stack)):
            key = frame.file, resumed(frame.function)[0]
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
    raw: Raw, reports: tuple[Report, ...], breaks: tuple[Break, ...], skips: tuple[Skip, ...]
) -> tuple[tuple[Break, ...], tuple[Skip, ...]]:
    """Put its cost on each break and skip; ops are None where no eager run was counted."""
    owners = _owners(reports, skips)
    ops, graphs = _Bill(), _Bill()
    for counted in raw.ops:
        for left in counted.stacks:
            ops.add(owners, left.stack, left.ops)
    for stack in _graph_callers(raw):
        graphs.add(owners, stack, 1)
    measured = any(counted.left is not None for counted in raw.ops)

    def cost(ops: int, graphs: int) -> Cost:
        return Cost(ops if measured else None, graphs)

    return (
        tuple(replace(each, cost=cost(ops.breaks[at], graphs.breaks[at])) for at, each in enumerate(breaks)),
        tuple(replace(each, cost=cost(ops.skips[at], graphs.skips[at])) for at, each in enumerate(skips)),
    )


def _owners(reports: tuple[Report, ...], skips: tuple[Skip, ...]) -> _Owners:
    owners = _Owners()
    for at, skip in enumerate(skips):
        owners.skips_in[skip.file, skip.function] = at
    for report in reports:
        for frame in report.parsed.frames:
            key = frame.file, frame.function
            if key not in owners.skips_in:
                owners.breaks_at.setdefault((frame.file, frame.line), report.site)
                if report.parsed.outcome is Outcome.REST_IN_EAGER:
                    owners.breaks_in.setdefault(key, report.site)
    return owners


def _graph_callers(raw: Raw) -> Iterable[tuple[Frame, ...]]:
    """Give, for the first graph of each code object, the stack of whoever called it."""
    seen = set()
    for compile_id in raw.graphs:
        frame_id = compile_id.partition("/")[0]
        code = raw.bytecode.get(compile_id)
        if frame_id not in seen and code is not None:
            seen.add(frame_id)
            yield code.callers

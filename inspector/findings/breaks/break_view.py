"""Rank breaks, skips and functions by cost."""

from collections.abc import Iterable
from typing import ClassVar

from msgspec import Struct

from ctrace.inspector.facts.findings import Break, Cost, Owner, Skip
from ctrace.inspector.facts.session import Function, Session, Verdict
from ctrace.inspector.grouping import grouped


class RankedBreak(Struct, frozen=True):
    """A break with its total cost, which includes the functions that run eagerly because of it."""

    JSON: ClassVar[str] = "*at break=number cost_with_skips=cost paths=at.paths"
    at: Break
    cost: Cost
    skips: tuple[Skip, ...]
    number: int = 0
    """Its index in `explain`."""


def ranked(session: Session, owner: Owner | None = None) -> tuple[RankedBreak, ...]:
    """Sort breaks by the ops that they leave in eager, then by the graphs that they add, then by frequency."""
    found = [_with_skips(session, index) for index in range(len(session.breaks))]
    mine = [each for each in found if owner is None or each.at.owner is owner]
    # Ops lost to eager weigh more than graphs added. Equals stay in the order in which the run met them.
    return tuple(sorted(mine, key=lambda each: (-(each.cost.ops or 0), -each.cost.graphs, -each.at.times)))


def by_user_line(found: Iterable[RankedBreak]) -> tuple[tuple[RankedBreak, ...], ...]:
    """Group breaks by the user's line, which may lead to several places of a library; keep the order."""
    lines = grouped(found, lambda each: (each.at.file, each.at.line))
    return tuple(map(tuple, lines.values()))


def together(costs: Iterable[Cost]) -> Cost:
    """Sum costs; ops that were not measured make the sum not measured."""
    known = list(costs)
    ops = None
    if not any(cost.ops is None for cost in known):
        ops = sum(cost.ops or 0 for cost in known)
    return Cost(ops, sum(cost.graphs for cost in known))


def _with_skips(session: Session, index: int) -> RankedBreak:
    at = session.breaks[index]
    skips = tuple(skip for skip in session.skips if skip.break_index == index)
    return RankedBreak(at, together([at.cost, *(skip.cost for skip in skips)]), skips, index)


def lonely_skips(skips: Iterable[Skip]) -> tuple[Skip, ...]:
    """Return the functions that Dynamo skipped by a rule and not because of a break, costliest first."""
    alone = (skip for skip in skips if skip.break_index is None)
    return tuple(sorted(alone, key=lambda skip: -(skip.cost.ops or 0)))


def never_compiled(session: Session) -> tuple[Function, ...]:
    """Return the functions that Dynamo compiled directly and that have no graph, in a run where others have one."""
    # Where no function has a graph, the verdict says so once; a list would repeat it for each function.
    if session.verdict is not Verdict.PARTIAL:
        return ()
    return tuple(
        each for each in session.functions if each.compiled_for_itself and not each.graphs and _is_named(each, session)
    )


def _is_named(function: Function, session: Session) -> bool:
    """Whether a break or a skip is in the function; other functions only call such a function."""
    mine = function.file, function.name.rpartition(".")[2]
    lines = [each.line for each in session.skips if (each.file, each.function) == mine]
    for each in session.breaks:
        lines += [frame.line for path in each.paths for frame in path if (frame.file, frame.function) == mine]
    # Several methods of a file may share a name: lines above this function belong to another one.
    return any(line >= function.line for line in lines)


def by_ops_left(functions: Iterable[Function]) -> tuple[Function, ...]:
    """Sort functions by the number of their ops that run eagerly; leave out functions without such ops."""
    found = [each for each in functions if _left(each)]
    return tuple(sorted(found, key=lambda each: -_left(each)))


def unclaimed_ops(session: Session) -> int:
    """Count the eager ops that no break and no skip explains; 0 if nothing was measured."""
    ops, compiled = session.coverage.ops, session.coverage.compiled
    if ops is None or compiled is None:
        return 0
    costs = [*(each.cost for each in session.breaks), *(skip.cost for skip in session.skips)]
    # A compiled call may leave more ops than eager mode runs; `coverage_of` cuts that off, the costs do not.
    return max(ops - compiled - sum(cost.ops or 0 for cost in costs), 0)


def _left(function: Function) -> int:
    ops, compiled = function.coverage.ops, function.coverage.compiled
    if ops is None or compiled is None:
        return 0
    return ops - compiled

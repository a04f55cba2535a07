"""One break or skip, as every screen writes it."""

from rich.text import Text

from ctrace.inspector.model import BreakKind, Cost, Owner, Skip
from ctrace.inspector.views.breaks import RankedBreak
from ctrace.reports import format as fmt


def break_head(number: int, each: RankedBreak, cwd: str) -> Text:
    """Write number, place, gb id, cost and owner of a break."""
    at = each.at
    facts = [
        ", ".join(at.gb) or "no gb id",
        fmt.count(at.times, "time"),
        cost(each.cost),
        "" if at.owner is Owner.USER else f"in {at.owner} code",
        "disabled by its author" if at.kind is BreakKind.DISABLED else "",
    ]
    return Text.assemble(
        (f"{number}. {fmt.place(at.file, at.line, cwd)}", "bold"),
        f" in {fmt.plain(at.function)}  ",
        (" · ".join(fact for fact in facts if fact), "dim"),
    )


def skip_line(skip: Skip, cwd: str) -> Text:
    """Write name, place and cost of a function that was left in eager."""
    facts = f"  {cost(skip.cost)}" if cost(skip.cost) else ""
    return Text.assemble(
        (fmt.plain(skip.function), "bold"), f"  {fmt.place(skip.file, skip.line, cwd)}", (facts, "dim")
    )


def cost(what: Cost) -> str:
    """Say what a finding costs; what was not measured, or is none, is left out."""
    ops = f"{fmt.count(what.ops, 'op')} in eager" if what.ops else ""
    graphs = f"+{fmt.count(what.graphs, 'graph')}" if what.graphs else ""
    return ", ".join(part for part in (ops, graphs) if part)

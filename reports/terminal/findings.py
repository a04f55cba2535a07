"""One break or skip, as every screen writes it."""

from rich.text import Text

from ctrace.inspector.model import BreakKind, Owner, Skip
from ctrace.inspector.views.breaks import RankedBreak
from ctrace.reports import format as fmt


def break_head(number: int, each: RankedBreak, cwd: str) -> Text:
    """Write number, place, gb id, cost and owner of a break."""
    at = each.at
    facts = [
        ", ".join(at.gb) or "no gb id",
        fmt.count(at.times, "time"),
        fmt.cost(each.cost),
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
    facts = f"  {fmt.cost(skip.cost)}" if fmt.cost(skip.cost) else ""
    return Text.assemble(
        (fmt.plain(skip.function), "bold"), f"  {fmt.place(skip.file, skip.line, cwd)}", (facts, "dim")
    )

"""Pieces of a finding that several screens show: its headline and its source."""

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from ctrace.inspector.facts.findings import BreakKind, Owner, Skip
from ctrace.inspector.findings.breaks.break_view import RankedBreak, together
from ctrace.inspector.source.text import Snippet
from ctrace.reports import format as fmt


def break_head(number: int, each: RankedBreak, cwd: str) -> Text:
    """Write the headline of a graph break: number, place, gb id, cost and owner."""
    at = each.at
    facts = [", ".join(at.gb) or "no gb id", fmt.count(at.times, "time"), fmt.cost(each.cost)]
    if at.owner is not Owner.USER:
        facts.append(f"in {at.owner} code")
    if at.kind is BreakKind.DISABLED:
        facts.append("disabled by its author")
    return Text.assemble(
        (f"{number}. {fmt.place(at.file, at.line, cwd)}", "bold"),
        f" in {fmt.plain(at.function)}  ",
        (" · ".join(fact for fact in facts if fact), "dim"),
    )


def line_head(number: int, same: Sequence[RankedBreak], cwd: str) -> Text:
    """Write the headline of a user's line that leads to several breaks: number, line and cost."""
    at = same[0].at
    facts = [
        fmt.count(len(same), "graph break"),
        fmt.count(sum(each.at.times for each in same), "time"),
        fmt.cost(together(each.cost for each in same)),
    ]
    return Text.assemble(
        (f"{number}. {fmt.place(at.file, at.line, cwd)}", "bold"),
        f" in {fmt.plain(at.function)}  ",
        (" · ".join(fact for fact in facts if fact), "dim"),
    )


def place_line(each: RankedBreak, cwd: str, *, is_alone: bool) -> Text:
    """Write where a break is: with its facts, unless its headline has them."""
    at, place = each.at, each.at.place
    line = Text(f"at {fmt.place(place.file, place.line, cwd)} in {fmt.plain(place.function)}")
    if not is_alone:
        facts = [", ".join(at.gb) or "no gb id", fmt.count(at.times, "time"), fmt.cost(each.cost)]
        if at.kind is BreakKind.DISABLED:
            facts.append("disabled by its author")
        line.append("  " + " · ".join(fact for fact in facts if fact), "dim")
    if place.source:
        line.append(f"\n  {fmt.one_line(place.source, 200)}", "cyan")
    return line


def skip_line(skip: Skip, cwd: str) -> Text:
    """Write the headline of a function that runs eagerly: name, place and cost."""
    facts = f"  {fmt.cost(skip.cost)}" if fmt.cost(skip.cost) else ""
    return Text.assemble(
        (fmt.plain(skip.function), "bold"), f"  {fmt.place(skip.file, skip.line, cwd)}", (facts, "dim")
    )


def source(cut: Snippet) -> RenderableType:
    """Number the lines, mark the one that breaks, and underline the expression that breaks."""
    wide = len(str(cut.lines[-1][0]))
    indent = min((len(text) - len(text.lstrip()) for _, text in cut.lines if text.strip()), default=0)
    text = Text()
    for number, code in cut.lines:
        here = number == cut.line
        line = fmt.plain(code[indent:].replace("\t", " "))
        text.append(f"   {'>' if here else ' '} {number:>{wide}} │ ", style="dim")
        text.append(f"{line}\n", style="cyan" if here else "dim")
        if here and cut.columns is not None:
            begin, end = (column - indent for column in cut.columns)
            text.append(f"     {'':>{wide}} │ ", style="dim")
            text.append(f"{' ' * begin}{'^' * max(min(end, len(line)) - begin, 1)}\n", style="bold cyan")
    text.rstrip()
    text.no_wrap, text.overflow = True, "ellipsis"
    return text

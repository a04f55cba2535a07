"""Fusion in a few lines, for `ctrace explain`."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.fusion.fusion_view import called
from ctrace.inspector.findings.fusion.missed_fusions import top_missed
from ctrace.inspector.findings.fusion.totals import session_totals
from ctrace.inspector.session.summary import fusion_totals
from ctrace.reports import format as fmt
from ctrace.reports.terminal.fusion.fusion_parts import is_flow
from ctrace.reports.terminal.widgets import hanging, item
from ctrace.reports.wording.fusion_wording import bytes_text, lines_text, ops_text


def fusion_title(session: Session) -> str:
    """Return the count of nodes and rounds, to append to a heading; empty if there was nothing to fuse."""
    found = fusion_totals(session)
    return (
        f"; fusion: {fmt.count(found.before, 'node')} into {found.after}, {fmt.count(found.rounds, 'round')}"
        if found
        else ""
    )


def fusion_lines(session: Session) -> Iterator[RenderableType]:
    """Show the bytes that all kernels move, and the most expensive missed fusion, if known."""
    if (found := session_totals(session)) is not None:
        graphs = f"; the sum of {len(session.graphs)} graphs, each run once" if len(session.graphs) > 1 else ""
        yield item(Text(f"{bytes_text(found)}{graphs}", style="dim"))
    if (top := top_missed(session)) is not None:
        each = top[1]
        first, second = (fmt.one_line(ops_text(called(node)), 24) for node in (each.first, each.second))
        where = f"  {lines_text((*each.first.lines, *each.second.lines), 30)}"
        flow, common = f"`{first}` writes it, `{second}` reads it back", f"`{first}` and `{second}` both read it"
        head = f"{fmt.memory(each.bytes)} extra memory traffic: {flow if is_flow(each) else common}"
        yield item(Group(Text.assemble((head, "yellow"), (where, "dim")), hanging(f"not fused: {each.reason.title}")))

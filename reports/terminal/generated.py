"""Show what `ctrace explain -v` adds to the screen: the graphs and the generated kernels."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.graphs.attention_view import AttentionState, kinds, unfused
from ctrace.inspector.findings.graphs.cuts import Cut, cut_off, cuts, happened
from ctrace.inspector.findings.kernels.user_kernels_view import in_one_line, stuck
from ctrace.inspector.session.summary import languages
from ctrace.reports import format as fmt
from ctrace.reports.terminal.attention_screen import places
from ctrace.reports.terminal.fusion_screen import fusion_lines, fusion_title
from ctrace.reports.terminal.kernel_tables import most_moving
from ctrace.reports.terminal.target_screen import facts, in_short
from ctrace.reports.terminal.widgets import MOST, hanging, item, more, section, table

_GRAPH_NUMBERS = 26
"""How many columns the table of graphs needs for all but the function."""


def generated(session: Session, width: int) -> Iterator[RenderableType]:
    """Show graphs and where they end, attention that was not fused, and kernels."""
    if session.graphs:
        yield section("Graphs")
        yield _graphs(session, width)
        yield from _cuts(session)
        yield from _attention(session)
    if session.kernels:
        by_language = ", ".join(f"{number} {language}" for language, number in languages(session).items())
        yield section(f"Kernels: {by_language}{fusion_title(session)}")
        yield from fusion_lines(session)
        yield from facts(session)
        yield most_moving(session, width)
    if summary := in_one_line(session):
        yield item(Text(fmt.one_line(f"{summary}: see ctrace kernels", 300), style="dim"))
    for _, note in stuck(session):
        yield hanging(note.text)
    yield from in_short(session)


def _graphs(session: Session, width: int) -> RenderableType:
    fates = {graph.id: happened(session, graph) for graph in session.graphs[:MOST]}
    rows = table("graph", "function", "ops", "guards", *(["what happened"] if any(fates.values()) else []))
    by_id = {compilation.id: compilation for compilation in session.compilations}
    for graph in session.graphs[:MOST]:
        compilation = by_id.get(graph.id)
        where = f"  {fmt.file_name(graph.file)}:{graph.line}"
        function = Text.assemble(fmt.one_line(graph.function), (where, "dim"))
        function.truncate(width - _GRAPH_NUMBERS - max(map(len, fates.values())), overflow="ellipsis")
        guards = "?" if compilation is None or compilation.guards is None else str(compilation.guards)
        rows.add_row(graph.id, function, str(graph.ops), guards, fates[graph.id])
    return Group(rows, *more(len(session.graphs), "graph"))


def _cuts(session: Session) -> Iterator[RenderableType]:
    found = cuts(session)
    for cut in found[:MOST]:
        yield item(Text(fmt.one_line(cut_off(session, cut, _breaks_of(session, cut)), 300), style="dim"))
    yield from more(len(found), "cut")


def _breaks_of(session: Session, cut: Cut) -> list[str]:
    return [
        f"{fmt.place(at.file, at.line, session.environment.cwd)} {fmt.one_line(at.expression or at.source, 60)}".strip()
        for at in (session.breaks[index] for index in cut.breaks)
    ]


def _attention(session: Session) -> Iterator[RenderableType]:
    found = kinds(each for each in unfused(session) if each.state is not AttentionState.WRONG)
    for each in found[:MOST]:
        where = f"{fmt.listed(each.graphs, 3)}, {places(each.lines, session.environment.cwd)}"
        title = f" ({each.title})" if each.title else ""
        times = f" {each.times} times" if each.times > 1 else ""
        yield item(Text(fmt.one_line(f"{where}: {each.sentence}{title}{times}", 300), style="yellow"))
    yield from more(len(found), "attention")

"""`ctrace graphs`: every graph at every stage, what each stage changed, and what is saved for the backward.

The options of the command line choose one of its views, which have a screen and JSON each, or a picture.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Struct

from ctrace.cli import command_options as opt
from ctrace.cli.view_run import Request, on_a_run
from ctrace.inspector.errors import TargetError

if TYPE_CHECKING:
    from ctrace.inspector.facts.session import Session
    from ctrace.inspector.findings.graphs.graph_lines import NodesAtLine
    from ctrace.inspector.findings.graphs.graph_view import CompiledGraph, Staged
    from ctrace.inspector.findings.graphs.stage_diff import StageDiff
    from ctrace.reports.escape import Document

EXAMPLES = """\b
Examples:
  ctrace graphs                           overview of the last run's graphs
  ctrace graphs --stage forward           one graph node by node
  ctrace graphs --graph 0/1 --ops         count its ops, and describe each
  ctrace graphs --line model.py:42        nodes of one line at every stage
  ctrace graphs --diff dynamo..forward    how each line was lowered
  ctrace graphs --diff post_grad          what Inductor's last passes changed
  ctrace graphs --passes                  what each of torch's passes changed
  ctrace graphs --svg -o graph.svg        a picture
"""

Graph = Annotated[str | None, typer.Option("--graph", metavar="ID", help="Show only one graph, such as 0/1.")]
AtStage = Annotated[
    str | None,
    typer.Option("--stage", metavar="STAGE", help="Show one stage node by node: dynamo, joint, forward, post_grad ..."),
]
Ops = Annotated[bool, typer.Option("--ops", help="Count ops, and describe each.")]
Line = Annotated[
    str | None, typer.Option("--line", metavar="FILE:LINE", help="Show the nodes of a source line at every stage.")
]
Diff = Annotated[
    str | None,
    typer.Option(
        "--diff",
        metavar="STAGES",
        help="Show what changed between two stages, BEFORE..AFTER, or in one, such as pre_grad.",
    ),
]
Passes = Annotated[bool, typer.Option("--passes", help="Show what each Inductor pass changed.")]
Dot = Annotated[bool, typer.Option("--dot", help="Write the graph in Graphviz's language.")]
Svg = Annotated[bool, typer.Option("--svg", help="Write the graph as an SVG picture.")]
All = Annotated[bool, typer.Option("--all", help="Show every graph, stage, node and stride.")]


@on_a_run
def graphs(
    request: Request,
    graph: Graph = None,
    stage: AtStage = None,
    ops: Ops = False,
    line: Line = None,
    diff: Diff = None,
    passes: Passes = False,
    dot: Dot = False,
    svg: Svg = False,
    all_of_it: All = False,
    json: opt.Json = False,
    output: opt.Output = None,
) -> None:
    """Show graphs at every stage, their shapes, and what each stage changed."""
    from ctrace.cli.filters import check_diff, check_graph, check_graph_stage, check_line
    from ctrace.cli.show import show_view

    check_graph(graph)
    check_line(line)
    check_graph_stage(stage)
    check_diff(diff)
    view = GraphView(graph, stage, line, diff, ops=ops, passes=passes, dot=dot, svg=svg, json=json, all_of_it=all_of_it)
    if view.is_picture:
        picture(request, view, output)
        return
    show_view(
        request,
        output,
        json=json,
        data=lambda session: data(session, view),
        screen=lambda session, width: screen(session, view, width),
    )


class GraphView(Struct, frozen=True):
    """The options of one command line.

    Raises:
        TargetError: two options exclude each other.
    """

    graph: str | None = None
    stage: str | None = None
    line: str | None = None
    diff: str | None = None
    ops: bool = False
    passes: bool = False
    dot: bool = False
    svg: bool = False
    json: bool = False
    all_of_it: bool = False

    def __post_init__(self) -> None:
        views = {
            "--diff": self.diff,
            "--line": self.line,
            "--ops": self.ops,
            "--passes": self.passes,
            "--dot": self.dot,
            "--svg": self.svg,
        }
        chosen = [name for name, value in views.items() if value]
        if self.json and self.is_picture:
            chosen.append("--json")
        if self.stage and (self.diff or self.line or self.passes):
            chosen.append("--stage")
        if len(chosen) > 1:
            raise TargetError(f"{' and '.join(chosen[:2])} exclude each other", "choose one")

    @property
    def is_picture(self) -> bool:
        """Whether the user wants a drawing."""
        return self.dot or self.svg


def data(session: "Session", view: GraphView) -> "Document":
    """Return the view as JSON."""
    from ctrace.inspector.findings.graphs.graph_view import compiled
    from ctrace.reports.json import graphs_json as json_graphs

    if view.diff:
        return json_graphs.render_diff_json(session, *_diff(session, view))
    if view.line:
        return json_graphs.render_line_json(session, view.line, _of_line(session, view.line, view.graph))
    if view.passes:
        return json_graphs.render_passes_json(session, _known(session, view.graph))
    if view.stage or view.ops:
        return json_graphs.render_stage_json(session, *_one_stage(session, view, "--stage"))
    return json_graphs.render_graphs_json(session, compiled(session, view.graph))


def screen(session: "Session", view: GraphView, width: int) -> opt.Screen:
    """Return the view as a screen."""
    if view.diff:
        from ctrace.reports.terminal.stage_diff_screen import diff_screen

        return diff_screen(session, *_diff(session, view), width, all_of_it=view.all_of_it)
    if view.line:
        return _line_screen(session, view.line, view, width)
    if view.passes:
        from ctrace.reports.terminal.stage_diff_screen import passes_screen

        return passes_screen(session, _known(session, view.graph))
    if view.ops:
        from ctrace.reports.terminal.node_screen import ops_screen

        return ops_screen(session, *_one_stage(session, view, "--ops"))
    if view.stage:
        from ctrace.reports.terminal.node_screen import stage_screen

        return stage_screen(session, *_one_stage(session, view, "--stage"), width, all_of_it=view.all_of_it)
    from ctrace.inspector.findings.graphs.graph_view import compiled
    from ctrace.reports.terminal.graphs_screen import graphs_screen

    return graphs_screen(session, compiled(session, view.graph), width, all_of_it=view.all_of_it)


def _known(session: "Session", graph: str | None) -> str | None:
    """Return the graph's id if the run has it.

    Raises:
        TargetError: it has no such graph.
    """
    from ctrace.inspector.findings.graphs.graph_view import compiled

    if graph is not None:
        compiled(session, graph)
    return graph


def _line_screen(session: "Session", line: str, view: GraphView, width: int) -> opt.Screen:
    from ctrace.reports.terminal.node_screen import line_screen

    return line_screen(session, _of_line(session, line, view.graph), width, all_of_it=view.all_of_it)


def _of_line(session: "Session", line: str, graph: str | None) -> "tuple[NodesAtLine, ...]":
    """Return the nodes of a source line.

    Raises:
        TargetError: there is none.
    """
    from ctrace.inspector.findings.graphs.graph_lines import near, of_line

    found = of_line(session, line, graph)
    if not found:
        known = [f"{Path(at.file).name}:{at.line}" for at in near(session, graph, line)]
        todo = f"lines with nodes: {', '.join(known)}" if known else "no node has a known source line"
        raise TargetError(f"--line {line}: no graph has a node from that line", todo)
    return found


def _diff(session: "Session", view: GraphView) -> "tuple[CompiledGraph, StageDiff]":
    from ctrace.inspector.findings.graphs.graph_view import only_one
    from ctrace.inspector.findings.graphs.stage_diff import stage_diff, two_stages

    each = only_one(session, view.graph, "--diff")
    return each, stage_diff(each, *two_stages(each, view.diff or ""))


def _one_stage(session: "Session", view: GraphView, option: str) -> "tuple[CompiledGraph, Staged]":
    from ctrace.inspector.findings.graphs.graph_view import only_one

    each = only_one(session, view.graph, option)
    return each, each.stage(view.stage) if view.stage else each.usual()


def picture(request: Request, view: GraphView, output: Path | None) -> None:
    """Draw one graph at one stage, and name the drawing tool on stderr.

    Raises:
        CtraceError: the command line, the target or the run is wrong, or the file cannot be written.
    """
    import typer

    from ctrace.cli.console import check_output, say, write_report
    from ctrace.cli.show import exit_code
    from ctrace.cli.view_run import session_of
    from ctrace.inspector.session.summary import first_lines
    from ctrace.reports.format import plain
    from ctrace.reports.svg import dot_text, svg_text

    check_output(output)
    session, is_new = session_of(request)
    each, staged = _one_stage(session, view, "--dot" if view.dot else "--svg")
    if staged.graph is None:
        raise TargetError(
            f"ctrace cannot read the stage {staged.label}", f"see its text: ctrace graphs --stage {staged.label}"
        )
    title = f"{each.id} {each.compilation.function} {staged.label}"
    text = dot_text(staged.graph, title)
    if view.svg:
        text, drawn_by = svg_text(staged.graph, title, text)
        say(f"Drawn by {drawn_by}")
    if lines := first_lines(session):
        say(f"ctrace: {str(session.verdict).upper()}: {plain(lines[0])}")
    write_report(text, output)
    if is_new:
        raise typer.Exit(exit_code(session))

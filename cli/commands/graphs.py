"""`ctrace graphs`: every graph at every stage, what each stage changed, and what is saved for the backward.

The options of the command line choose one of its views, which have a screen and JSON each, or a picture.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Struct

from ctrace.cli import command_options as opt
from ctrace.cli.run_request import Request, on_a_run
from ctrace.inspector.errors import TargetError

if TYPE_CHECKING:
    from ctrace.inspector.facts.session import Session
    from ctrace.inspector.findings.target_gpu_view import TargetDocument

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
    from ctrace.cli.show import show_answer

    check_graph(graph)
    check_line(line)
    check_graph_stage(stage)
    check_diff(diff)
    view = GraphView(graph, stage, line, diff, ops=ops, passes=passes, dot=dot, svg=svg, json=json, all_of_it=all_of_it)
    # A picture is neither a screen nor JSON, and is written even where there is a verdict to show.
    if view.is_picture:
        picture(request, view, output)
        return
    show_answer(
        request,
        output,
        json=json,
        document=lambda session: graphs_answer(session, view),
        screen=lambda document, width: graphs_view_screen(document, view, width),
        is_led=not (view.diff or view.line or view.stage or view.ops),
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
        # --stage goes with --ops and with a picture, which show one stage.
        if self.stage and (self.diff or self.line or self.passes):
            chosen.append("--stage")
        if len(chosen) > 1:
            raise TargetError(f"{' and '.join(chosen[:2])} exclude each other", "choose one")

    @property
    def is_picture(self) -> bool:
        """Whether the user wants a drawing."""
        return self.dot or self.svg


def graphs_answer(session: "Session", view: GraphView) -> "TargetDocument":
    """Return the Document of a view.

    Raises:
        TargetError: the run has no such graph, stage or line, or several graphs.
    """
    from ctrace.inspector.findings.graphs import graphs_document as documents

    if view.diff:
        return documents.stage_diff_document(session, view.diff, view.graph)
    if view.line:
        return documents.graph_line_document(session, view.line, view.graph)
    if view.passes:
        return documents.passes_document(session, view.graph)
    if view.stage or view.ops:
        # An error names the option that was typed.
        option = "--ops" if view.ops and not view.json else "--stage"
        return documents.graph_stage_document(session, view.graph, view.stage, option)
    return documents.graphs_document(session, view.graph)


def graphs_view_screen(document: "TargetDocument", view: GraphView, width: int) -> opt.Screen:
    """Return the screen of a view's Document."""
    from ctrace.inspector.findings.graphs import graphs_document as documents
    from ctrace.reports.terminal.graphs_screen import graphs_screen
    from ctrace.reports.terminal.node_screen import line_screen, ops_screen, stage_screen
    from ctrace.reports.terminal.stage_diff_screen import diff_screen, passes_screen

    match document:
        case documents.StageDiffDocument():
            return diff_screen(document, width, all_of_it=view.all_of_it)
        case documents.GraphLineDocument():
            return line_screen(document, width, all_of_it=view.all_of_it)
        case documents.PassesDocument():
            return passes_screen(document)
        case documents.GraphStageDocument() if view.ops:
            return ops_screen(document)
        case documents.GraphStageDocument():
            return stage_screen(document, width, all_of_it=view.all_of_it)
        case documents.GraphsDocument():
            return graphs_screen(document, width, all_of_it=view.all_of_it)
    raise TypeError(f"{document} is no view of graphs")


def picture(request: Request, view: GraphView, output: Path | None) -> None:
    """Draw one graph at one stage, and name the drawing tool on stderr.

    Raises:
        CtraceError: the command line, the target or the run is wrong, or the file cannot be written.
    """
    import typer

    from ctrace.cli.console import check_output, say, write_report
    from ctrace.cli.run_request import session_of
    from ctrace.cli.show import exit_code
    from ctrace.inspector.findings.graphs.graphs_document import graph_stage_document
    from ctrace.inspector.session.summary import first_lines
    from ctrace.reports.format import plain
    from ctrace.reports.svg import dot_text, svg_text

    check_output(output)
    session, is_new = session_of(request)
    found = graph_stage_document(session, view.graph, view.stage, "--dot" if view.dot else "--svg")
    each, staged = found.each, found.staged
    if staged.graph is None:
        raise TargetError(
            f"ctrace cannot read the stage {staged.label}", f"see its text: ctrace graphs --stage {staged.label}"
        )
    title = f"{each.id} {each.compilation.function} {staged.label}"
    text = dot_text(staged.graph, title)
    if view.svg:
        text, drawn_by = svg_text(staged.graph, title, text)
        say(f"Drawn by {drawn_by}")
    # On stderr, since a picture has no room for it.
    if lines := first_lines(session):
        say(f"ctrace: {str(session.verdict).upper()}: {plain(lines[0])}")
    write_report(text, output)
    if is_new:
        raise typer.Exit(exit_code(session))

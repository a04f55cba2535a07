"""`ctrace graphs`: every graph at every stage, what each stage changed, and what is saved for the backward."""

from typing import Annotated

import typer

from ctrace.cli import command_options as opt
from ctrace.cli.view_run import Request, on_a_run

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
    from ctrace.cli.graph_views import GraphView, data, picture, screen
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

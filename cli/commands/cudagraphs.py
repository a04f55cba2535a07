"""`ctrace cudagraphs`: which graphs replay as CUDA graphs, which do not, and why."""

from typing import TYPE_CHECKING, Annotated

import typer

from ctrace.cli import command_options as opt
from ctrace.cli.view_run import Request, on_a_run

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import RenderableType

    from ctrace.inspector.facts.session import Session
    from ctrace.reports.escape import Document

EXAMPLES = """\b
Examples:
  ctrace cudagraphs model.py --mode reduce-overhead --build   on a GPU
  ctrace cudagraphs model.py --mode reduce-overhead --target h100
  ctrace cudagraphs                  of the last run
  ctrace cudagraphs --graph 0/0 --all
"""

Graph = Annotated[str | None, typer.Option("--graph", metavar="ID", help="Show only one graph, such as 0/1.")]
All = Annotated[bool, typer.Option("--all", help="Show every tensor and op that a CUDA graph cannot hold.")]


@on_a_run
def cudagraphs(
    request: Request,
    graph: Graph = None,
    all_of_it: All = False,
    json: opt.Json = False,
    output: opt.Output = None,
) -> None:
    """Show which graphs replay as CUDA graphs, and why others do not."""
    from ctrace.cli.filters import check_graph
    from ctrace.cli.show import show_view

    check_graph(graph)

    def data(session: "Session") -> "Document":
        from ctrace.reports.json.speed.cuda_graphs_json import render_cuda_graphs_json

        return render_cuda_graphs_json(session, graph)

    def screen(session: "Session", _width: int) -> "Iterable[RenderableType]":
        from ctrace.reports.terminal.cuda_graphs_screen import cuda_graphs_screen

        return cuda_graphs_screen(session, graph, all_of_it=all_of_it)

    show_view(request, output, json=json, data=data, screen=screen)

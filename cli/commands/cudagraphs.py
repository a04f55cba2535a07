"""`ctrace cudagraphs`: which graphs replay as CUDA graphs, which do not, and why."""

from typing import Annotated

import typer

from ctrace.cli import command_options as opt
from ctrace.cli.run_request import Request, on_a_run

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
    from ctrace.cli.show import show_answer
    from ctrace.inspector.findings.cuda_graph_view import CudaGraphsDocument, cuda_graphs_document

    check_graph(graph)

    def screen(document: CudaGraphsDocument, _width: int) -> opt.Screen:
        from ctrace.reports.terminal.cuda_graphs_screen import cuda_graphs_screen

        return cuda_graphs_screen(document, all_of_it=all_of_it)

    show_answer(
        request, output, json=json, document=lambda session: cuda_graphs_document(session, graph), screen=screen
    )

"""`ctrace autotune`: which choices torch timed for each operation, which one won, and by how much."""

from typing import Annotated

import typer

from ctrace.cli import command_options as opt
from ctrace.cli.run_request import Request, on_a_run

EXAMPLES = """\b
Examples:
  ctrace autotune model.py --mode max-autotune --build
  ctrace autotune model.py --mode max-autotune --target h100    lists choices
  ctrace autotune                    of the last run
  ctrace autotune --op mm --all      every choice of each mm
"""

Graph = Annotated[str | None, typer.Option("--graph", metavar="ID", help="Show only one graph, such as 0/1.")]
Op = Annotated[str | None, typer.Option("--op", metavar="NAME", help="Show only operations of one kind, such as mm.")]
All = Annotated[bool, typer.Option("--all", help="Show every choice and configuration.")]


@on_a_run
def autotune(
    request: Request,
    graph: Graph = None,
    op: Op = None,
    all_of_it: All = False,
    json: opt.Json = False,
    output: opt.Output = None,
) -> None:
    """Show the choices that torch timed for each operation, and which one won.

    Torch times its choices with --mode max-autotune and --build.
    """
    from ctrace.cli.filters import check_graph
    from ctrace.cli.show import show_answer
    from ctrace.inspector.findings.autotuning_view import AutotuningDocument, autotuning_document

    # Before a capture, which takes minutes with --mode max-autotune.
    check_graph(graph)

    def screen(document: AutotuningDocument, _width: int) -> opt.Screen:
        from ctrace.reports.terminal.autotuning_screen import autotuning_screen

        return autotuning_screen(document, all_of_it=all_of_it)

    show_answer(
        request, output, json=json, document=lambda session: autotuning_document(session, graph, op), screen=screen
    )

"""`ctrace autotune`: which choices torch timed for each operation, which one won, and by how much."""

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
    from ctrace.cli.show import show_view
    from ctrace.inspector.findings.autotuning.autotuning_view import check_selection

    check_graph(graph)

    def data(session: "Session") -> "Document":
        from ctrace.reports.json.speed.autotuning_json import render_autotuning_json

        check_selection(session, graph, op)
        return render_autotuning_json(session, graph, op)

    def screen(session: "Session", _width: int) -> "Iterable[RenderableType]":
        from ctrace.reports.terminal.autotuning_screen import autotuning_screen

        check_selection(session, graph, op)
        return autotuning_screen(session, graph, op, all_of_it=all_of_it)

    show_view(request, output, json=json, data=data, screen=screen)

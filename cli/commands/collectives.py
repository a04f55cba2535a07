"""`ctrace collectives`: each collective of a rank in order, and who put it there."""

from typing import TYPE_CHECKING, Annotated

import typer

from ctrace.cli import command_options as opt
from ctrace.cli.run_request import Request, on_a_run

if TYPE_CHECKING:
    from ctrace.inspector.features.cluster.collective_view import CollectivesDocument

EXAMPLES = """\b
Examples:
  ctrace collectives model.py --world 8 --train
  ctrace collectives train.py --world 1024 --rank 7
  ctrace collectives                       of the last run
  ctrace collectives --all --json          every one, as data
"""

All = Annotated[bool, typer.Option("--all", help="Show every collective, each time that it runs.")]


@on_a_run
def collectives(
    request: Request,
    all_of_it: All = False,
    json: opt.Json = False,
    output: opt.Output = None,
) -> None:
    """Show what a rank communicates: each collective, its size, its line and who put it there."""
    from ctrace.cli.show import show_answer
    from ctrace.inspector.features.cluster.collective_view import collectives_document

    def screen(document: "CollectivesDocument", width: int) -> opt.Screen:
        from ctrace.reports.terminal.collectives_screen import collectives_screen

        return collectives_screen(document, width, all_of_it=all_of_it)

    show_answer(request, output, json=json, document=collectives_document, screen=screen)

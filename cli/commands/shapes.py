"""`ctrace shapes`: which sizes are static or dynamic, why, and how to keep them dynamic."""

from typing import Annotated

import typer

from ctrace.cli import command_options as opt
from ctrace.cli.run_request import Request, on_a_run

EXAMPLES = """\b
Examples:
  ctrace shapes                     sizes of the last run, by function
  ctrace shapes model.py --vary "0=4,8,16"
  ctrace shapes --function forward  one function only
  ctrace shapes --all               also parameters, buffers and conditions
"""

All = Annotated[bool, typer.Option("--all", help="Also show static parameters and buffers, and every condition.")]
Of = Annotated[str | None, typer.Option("--function", metavar="NAME", help="Show only the function NAME.")]


@on_a_run
def shapes(
    request: Request, everything: All = False, function: Of = None, json: opt.Json = False, output: opt.Output = None
) -> None:
    """Show which sizes are static or dynamic, why, and what to change."""
    from ctrace.cli.show import show_answer
    from ctrace.inspector.findings.shapes_document import ShapesDocument, shapes_document

    def screen(document: ShapesDocument, width: int) -> opt.Screen:
        from ctrace.reports.terminal.shapes_screen import shapes_screen

        return shapes_screen(document, width, everything=everything)

    show_answer(request, output, json=json, document=lambda session: shapes_document(session, function), screen=screen)

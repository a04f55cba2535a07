"""`ctrace bytecode`: how Dynamo rewrote each function's bytecode, and what each piece is for."""

from typing import TYPE_CHECKING, Annotated

import typer

from ctrace.cli import command_options as opt
from ctrace.cli.run_request import Request, on_a_run

if TYPE_CHECKING:
    from ctrace.inspector.facts.session import Session

EXAMPLES = """\b
Examples:
  ctrace bytecode                     functions of the last run, and a diff
  ctrace bytecode --function forward  the diffs of one function
  ctrace bytecode --graph 1/0         the diff of one compilation
  ctrace bytecode --line 12           how one source line changed
  ctrace bytecode --source            what the new functions do, as Python
  ctrace bytecode --all --unified model.py
"""

Function = Annotated[str | None, typer.Option("--function", metavar="NAME", help="Show only the function NAME.")]
Graph = Annotated[str | None, typer.Option("--graph", metavar="ID", help="Show only one compilation, such as 0/1.")]
Line = Annotated[int | None, typer.Option("--line", metavar="LINE", help="Show only instructions of this source line.")]
All = Annotated[bool, typer.Option("--all", help="Show every diff with every instruction.")]
SideBySide = Annotated[
    bool | None,
    typer.Option(
        "--side-by-side/--unified", help="Show old and new code side by side, or as one diff. Default: by screen width."
    ),
]
Source = Annotated[bool, typer.Option("--source", help="Show the new functions as Python, where proven equal.")]


@on_a_run
def bytecode(
    request: Request,
    function: Function = None,
    graph: Graph = None,
    line: Line = None,
    all_of_it: All = False,
    side_by_side: SideBySide = None,
    source: Source = False,
    json: opt.Json = False,
    output: opt.Output = None,
) -> None:
    """Show each function's bytecode before and after Dynamo, and what Dynamo added."""
    from ctrace.cli.filters import check_graph
    from ctrace.cli.show import show_answer
    from ctrace.inspector.features.bytecode.bytecode_view import BytecodeDocument, BytecodeFilter, bytecode_document

    check_graph(graph)

    def document(session: "Session") -> BytecodeDocument:
        choice = BytecodeFilter(function, graph, line)
        # The diffs of all functions take long, and the screen shows a few of them.
        return bytecode_document(session, choice, source=source, whole=json or all_of_it)

    def screen(found: BytecodeDocument, width: int) -> opt.Screen:
        from ctrace.reports.terminal.bytecode_screen import bytecode_screen, source_screen

        if source:
            return source_screen(found, width, all_of_it=all_of_it)
        return bytecode_screen(found, width, all_of_it=all_of_it, side_by_side=side_by_side)

    show_answer(request, output, json=json, document=document, screen=screen)

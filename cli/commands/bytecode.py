"""`ctrace bytecode`: how Dynamo rewrote each function's bytecode, and what each piece is for."""

from typing import TYPE_CHECKING, Annotated

import typer

from ctrace.cli import command_options as opt
from ctrace.cli.view_run import Request, on_a_run
from ctrace.inspector.errors import did_you_mean

if TYPE_CHECKING:
    from ctrace.inspector.facts.session import Session
    from ctrace.inspector.features.bytecode.bytecode_view import CompiledFunction
    from ctrace.reports.escape import Document

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
    from ctrace.cli.show import show_view

    check_graph(graph)

    def data(session: "Session") -> "Document":
        from ctrace.reports.json.bytecode_json import render_bytecode_json

        return render_bytecode_json(session, _chosen(session, function, graph, line), line, source=source)

    def screen(session: "Session", width: int) -> opt.Screen:
        from ctrace.reports.terminal.bytecode_screen import Selection, bytecode_screen

        whole = function is None and graph is None and line is None
        chosen = _chosen(session, function, graph, line)
        return bytecode_screen(session, Selection(chosen, whole, line, all_of_it, side_by_side, source), width)

    show_view(request, output, json=json, data=data, screen=screen)


def _chosen(
    session: "Session", function: str | None, graph: str | None, line: int | None
) -> "tuple[CompiledFunction, ...]":
    """Return the selected compilations.

    Raises:
        TargetError: the run has bytecode, but no such function, compilation or line.
    """
    from ctrace.inspector.features.bytecode.bytecode_view import function_codes

    functions = function_codes(session)
    if not functions and (function, graph, line) == (None, None, None):
        return ()
    matching = [each for each in functions if function is None or function in (each.name, each.name.rpartition(".")[2])]
    if function is not None and not matching:
        _refuse("--function", function, _suggested(function, [each.name for each in functions]))
    found = tuple(each for one in matching for each in one.all if graph in (None, each.compilation.id))
    if graph is not None and not found:
        _refuse("--graph", graph, _suggested(graph, [each.compilation.id for one in matching for each in one.all]))
    if line is None:
        return found
    return _at(session, found, line)


def _at(session: "Session", found: "tuple[CompiledFunction, ...]", line: int) -> "tuple[CompiledFunction, ...]":
    """Return the compilations with instructions of a source line."""
    lines = {each: _lines(session, each) for each in found}
    known = set().union(*lines.values())
    if line not in known:
        near = sorted(known, key=lambda each: abs(each - line))[:8]
        _refuse("--line", str(line), f"the nearest are: {', '.join(map(str, sorted(near)))}")
    return tuple(each for each in found if line in lines[each])


def _lines(session: "Session", compiled: "CompiledFunction") -> set[int]:
    code = session.codes[compiled.compilation.id].before
    return {each.line for each in code.instructions if each.line is not None}


def _suggested(name: str, known: list[str]) -> str:

    plain = {name.rpartition(".")[2]: name for name in known}
    return did_you_mean(name, [*known, *plain], f"there are: {', '.join(known[:8])}")


def _refuse(option: str, name: str, todo: str) -> None:
    from ctrace.inspector.errors import TargetError

    raise TargetError(f"{option} {name}: this run has no bytecode for it", todo)

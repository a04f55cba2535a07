"""`ctrace bytecode`: what Dynamo made of the bytecode of each function, and what each piece of it is for."""

from typing import TYPE_CHECKING, Annotated

import typer

from ctrace.cli import options as opt
from ctrace.cli.capturing import Request, on_a_run
from ctrace.inspector.errors import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import RenderableType

    from ctrace.inspector.bytecode.view import Compiled
    from ctrace.inspector.model.session import Session
    from ctrace.reports.escape import Document

EXAMPLES = """\b
Examples:
  ctrace bytecode                     functions of the last run, and a diff
  ctrace bytecode --function forward  the diffs of one function
  ctrace bytecode --graph 1/0         that of one compilation
  ctrace bytecode --line 12           what became of one source line
  ctrace bytecode --source            what the new functions do, as Python
  ctrace bytecode --all --unified model.py
"""

Function = Annotated[str | None, typer.Option("--function", metavar="NAME", help="Only the function NAME.")]
Graph = Annotated[str | None, typer.Option("--graph", metavar="ID", help="Only one compilation, such as 0/1.")]
Line = Annotated[int | None, typer.Option("--line", metavar="LINE", help="Only instructions of this source line.")]
All = Annotated[bool, typer.Option("--all", help="Show every diff, and every instruction of it.")]
SideBySide = Annotated[
    bool | None,
    typer.Option("--side-by-side/--unified", help="Old beside new, or below; by default as the screen is wide."),
]
Source = Annotated[bool, typer.Option("--source", help="Show what the new functions do as Python, where proven.")]


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
    """Show each function's bytecode before and after Dynamo, and what was put in."""
    from ctrace.cli.filters import check_graph
    from ctrace.cli.show import show_view

    check_graph(graph)

    def data(session: "Session") -> "Document":
        from ctrace.reports.json.bytecode import render_bytecode_json

        return render_bytecode_json(session, _chosen(session, function, graph, line), line, source=source)

    def screen(session: "Session", width: int) -> "Iterable[RenderableType]":
        from ctrace.reports.terminal.bytecode.screen import Selection, bytecode_screen

        whole = function is None and graph is None and line is None
        chosen = _chosen(session, function, graph, line)
        return bytecode_screen(session, Selection(chosen, whole, line, all_of_it, side_by_side, source), width)

    show_view(request, output, json=json, data=data, screen=screen)


def _chosen(session: "Session", function: str | None, graph: str | None, line: int | None) -> "tuple[Compiled, ...]":
    """Return the compilations that are asked for.

    Raises:
        TargetError: the run has bytecode, but no such function, compilation or line.
    """
    from ctrace.inspector.bytecode.view import function_codes

    functions = function_codes(session)
    if not functions and (function, graph, line) == (None, None, None):
        return ()
    named = [each for each in functions if function is None or function in (each.name, each.name.rpartition(".")[2])]
    if function is not None and not named:
        _refuse("--function", function, _suggested(function, [each.name for each in functions]))
    found = tuple(each for one in named for each in one.all if graph in (None, each.compilation.id))
    if graph is not None and not found:
        _refuse("--graph", graph, _suggested(graph, [each.compilation.id for one in named for each in one.all]))
    return found if line is None else _at(session, found, line)


def _at(session: "Session", found: "tuple[Compiled, ...]", line: int) -> "tuple[Compiled, ...]":
    """Return those with instructions of a source line."""
    lines = {each: _lines(session, each) for each in found}
    known = set().union(*lines.values())
    if line not in known:
        near = sorted(known, key=lambda each: abs(each - line))[:8]
        _refuse("--line", str(line), f"the nearest are: {', '.join(map(str, sorted(near)))}")
    return tuple(each for each in found if line in lines[each])


def _lines(session: "Session", compiled: "Compiled") -> set[int]:
    code = session.codes[compiled.compilation.id].before
    return {each.line for each in code.instructions if each.line is not None}


def _suggested(asked: str, known: list[str]) -> str:

    plain = {name.rpartition(".")[2]: name for name in known}
    return did_you_mean(asked, [*known, *plain], f"there are: {', '.join(known[:8])}")


def _refuse(option: str, asked: str, todo: str) -> None:
    from ctrace.inspector.errors import TargetError

    raise TargetError(f"{option} {asked}: this run has no bytecode of it", todo)

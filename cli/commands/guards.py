"""`ctrace guards`: what each compiled graph requires, which source line made it so, and what checking costs."""

from typing import TYPE_CHECKING, Annotated

import typer

from ctrace.cli import command_options as opt
from ctrace.cli.run_request import Request, on_a_run

if TYPE_CHECKING:
    from ctrace.inspector.facts.session import Session

EXAMPLES = """\b
Examples:
  ctrace guards                       summary of the last run
  ctrace guards --by-line             guards by the source line behind them
  ctrace guards --name self.fc --kind TENSOR_MATCH
  ctrace guards --line model.py:42    guards from one line
  ctrace guards --cost model.py       run it and measure the guards' cost
"""

Name = Annotated[str, typer.Option("--name", metavar="PART", help="Show only guards on names that contain PART.")]
Kind = Annotated[
    str, typer.Option("--kind", metavar="PART", help="Show only kinds that contain PART, such as TENSOR_MATCH.")
]
Line = Annotated[str, typer.Option("--line", metavar="PLACE", help="Show only guards from LINE or FILE:LINE.")]
Graph = Annotated[str | None, typer.Option("--graph", metavar="ID", help="Show only guards of one graph, such as 0/1.")]
ByLine = Annotated[bool, typer.Option("--by-line", help="Group guards by the source line behind them.")]
ByKind = Annotated[bool, typer.Option("--by-kind", help="Count guards by kind.")]
ByObject = Annotated[bool, typer.Option("--by-object", help="Count guards by the object they check.")]
Tree = Annotated[bool, typer.Option("--tree", help="Show torch's guard tree, node by node.")]
Cost = Annotated[bool, typer.Option("--cost", help="Show what checking guards costs; a new run measures it.")]
All = Annotated[bool, typer.Option("--all", help="List every guard of every compilation.")]


@on_a_run
def guards(
    request: Request,
    name: Name = "",
    kind: Kind = "",
    line: Line = "",
    graph: Graph = None,
    by_line: ByLine = False,
    by_kind: ByKind = False,
    by_object: ByObject = False,
    tree: Tree = False,
    cost: Cost = False,
    all_of_it: All = False,
    json: opt.Json = False,
    output: opt.Output = None,
) -> None:
    """Show the guards that a call must pass to use a compiled graph."""
    from ctrace.cli.filters import check_graph, check_line
    from ctrace.cli.show import show_answer
    from ctrace.inspector.findings.guard_view import GuardFilter, GuardsDocument, guards_document

    check_graph(graph)
    check_line(line)
    view = _view(line=by_line, kind=by_kind, object=by_object, tree=tree, cost=cost)
    choice = GuardFilter(name, kind, line)
    # Measured while the model runs, so that a run that is read has it or not.
    request.options["guard_cost"] = cost

    def document(session: "Session") -> GuardsDocument:
        return guards_document(session, choice, graph, whole=json or all_of_it)

    def screen(found: GuardsDocument, width: int) -> opt.Screen:
        from ctrace.reports.terminal.guards_screen import guards_screen

        return guards_screen(found, width, view=view, all_of_it=all_of_it)

    show_answer(request, output, json=json, document=document, screen=screen)


def _view(**options: bool) -> str:
    from ctrace.inspector.errors import TargetError

    chosen = [name for name, is_set in options.items() if is_set]
    if len(chosen) > 1:
        # Two of the options are not spelled `--by-`.
        names = " and ".join(f"--{name}" if name in ("tree", "cost") else f"--by-{name}" for name in chosen)
        raise TargetError(f"{names} exclude each other", "choose one")
    return chosen[0] if chosen else "summary"

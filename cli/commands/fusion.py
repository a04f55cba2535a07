"""`ctrace fusion`: how Inductor fused nodes into kernels, round by round, and what it did not fuse."""

from typing import TYPE_CHECKING, Annotated

import typer

from ctrace.cli import command_options as opt
from ctrace.cli.run_request import Request, on_a_run

if TYPE_CHECKING:
    from ctrace.inspector.diagnosis.side_by_side_document import SideBySideDocument
    from ctrace.inspector.facts.session import Session

EXAMPLES = """\b
Examples:
  ctrace fusion                      bytes, rounds and missed fusions
  ctrace fusion --graph 0/0 -v       one graph, with torch's own reasons
  ctrace fusion --stage backward     only the backward
  ctrace fusion --rounds             the pairs of each round, in order
  ctrace fusion --nodes              every node before and after fusion
  ctrace fusion model.py --json      everything as data
"""

Graph = Annotated[str | None, typer.Option("--graph", metavar="ID", help="Show only one graph, such as 0/1.")]
AtStage = Annotated[
    str | None, typer.Option("--stage", metavar="STAGE", help="Show only one part: forward, backward or inference.")
]
Rounds = Annotated[
    bool, typer.Option("--rounds", help="Show the pairs of each round in order and why, and refused pairs.")
]
Nodes = Annotated[
    bool, typer.Option("--nodes", help="Show every node before and after fusion, with loops, bytes and lines.")
]
All = Annotated[bool, typer.Option("--all", help="Show every graph, pair and node.")]
Verbose = Annotated[bool, typer.Option("-v", "--verbose", help="Also show torch's own reasons and names.")]


@on_a_run
def fusion(
    request: Request,
    graph: Graph = None,
    stage: AtStage = None,
    rounds: Rounds = False,
    nodes: Nodes = False,
    all_of_it: All = False,
    verbose: Verbose = False,
    json: opt.Json = False,
    output: opt.Output = None,
) -> None:
    """Show how nodes were fused into kernels, what was not fused, and why."""
    from ctrace.cli.filters import check_graph, check_part
    from ctrace.cli.show import show_answer
    from ctrace.cli.sidebyside import shown_side_by_side
    from ctrace.inspector.errors import TargetError
    from ctrace.inspector.findings.fusion_view import FusionDocument, fusion_document

    check_graph(graph)
    check_part(stage)
    if rounds and nodes:
        raise TargetError("--rounds and --nodes exclude each other", "choose one")

    def document(session: "Session") -> FusionDocument:
        return fusion_document(session, graph, stage)

    def screen(found: FusionDocument, width: int) -> opt.Screen:
        from ctrace.reports.terminal.fusion_screen import fusion_screen, nodes_screen, rounds_screen

        if rounds:
            return rounds_screen(found, width, all_of_it=all_of_it, verbose=verbose)
        if nodes:
            return nodes_screen(found, width, all_of_it=all_of_it)
        return fusion_screen(found, width, all_of_it=all_of_it, verbose=verbose)

    def several(found: "SideBySideDocument[FusionDocument]", width: int) -> opt.Screen:
        from ctrace.reports.terminal.side_by_side_screen import fusions_side_by_side

        return fusions_side_by_side(found, width)

    # These narrow the view of one run; several GPUs are compared as a whole.
    others = {"--graph": graph, "--stage": stage, "--rounds": rounds, "--nodes": nodes}
    if not shown_side_by_side(request, output, json=json, document=document, screen=several, others=others):
        show_answer(request, output, json=json, document=document, screen=screen)

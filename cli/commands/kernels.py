"""`ctrace kernels`: the generated kernels, what each moves and computes, and the source lines behind it."""

from typing import Annotated

import typer

from ctrace.cli import command_options as opt
from ctrace.cli.run_request import Request, on_a_run

EXAMPLES = """\b
Examples:
  ctrace kernels                          kernels of the last run, by bytes
  ctrace kernels --kernel addmm           one of them in detail
  ctrace kernels --line model.py:42       kernels of one line, or 42-50
  ctrace kernels --source                 code of all, with source lines
  ctrace kernels --source --kernel exp_0  code of one
  ctrace kernels --wrapper --graph 0/0    the code that calls them
  ctrace kernels --dump kernels/          one runnable file per kernel
  ctrace kernels --target h100            for a GPU you do not have
  ctrace kernels --target a100,h100       for two, side by side
  ctrace kernels --ir ptx --kernel exp_0  the code that Triton compiled
  ctrace kernels model.py --train --stage backward
  ctrace kernels eject gelu_1 -o ops      take one out; then kernels edit,
                                          tune, apply; wrap for your own
"""

Graph = Annotated[
    str | None, typer.Option("--graph", metavar="ID", help="Show only kernels of one graph, such as 0/1.")
]
AtStage = Annotated[
    str | None, typer.Option("--stage", metavar="STAGE", help="Show only forward, backward or inference kernels.")
]
Name = Annotated[
    str | None,
    typer.Option("--kernel", metavar="NAME", help="Show one kernel in detail; a unique part of its name is enough."),
]
Line = Annotated[
    str | None, typer.Option("--line", metavar="PLACE", help="Show the kernels of LINE, FILE:LINE or FILE:LINE-LINE.")
]
Source = Annotated[bool, typer.Option("--source", help="Print the code, annotated with your source lines.")]
Wrapper = Annotated[
    bool, typer.Option("--wrapper", help="Print the code that allocates buffers and calls the kernels.")
]
Dump = Annotated[
    str | None,
    typer.Option("--dump", metavar="DIR", help="Write each kernel as a runnable file, with the wrapper and the graph."),
]
Ir = Annotated[
    str | None,
    typer.Option(
        "--ir", metavar="STAGE", help="Print the ttir, ttgir, llir, ptx or sass of a run with --target or --build."
    ),
]
All = Annotated[bool, typer.Option("--all", help="Show every graph part, kernel and call.")]


@on_a_run
def kernels(
    request: Request,
    graph: Graph = None,
    stage: AtStage = None,
    kernel: Name = None,
    line: Line = None,
    source: Source = False,
    wrapper: Wrapper = False,
    dump: Dump = None,
    ir: Ir = None,
    all_of_it: All = False,
    json: opt.Json = False,
    output: opt.Output = None,
) -> None:
    """Show kernels with their ops, lines, bytes, FLOPs and code."""
    from ctrace.cli.filters import check_graph, check_ir, check_line, check_part
    from ctrace.cli.kernel_choice import KernelChoice, document, screen, side_by_side, with_torchs
    from ctrace.cli.show import show_answer
    from ctrace.cli.sidebyside import shown_side_by_side

    check_graph(graph)
    check_part(stage)
    check_line(line)
    check_ir(ir)
    view = KernelChoice(graph, stage, kernel, line, dump, ir, source=source, wrapper=wrapper, all_of_it=all_of_it)
    if shown_side_by_side(
        request,
        output,
        json=json,
        document=lambda session: document(session, view),
        screen=lambda found, width: side_by_side(found, view, width),
        others=view.views,
    ):
        return
    show_answer(
        request,
        output,
        json=json,
        # A log of torch alone has kernels only as text, which takes long to parse: no other view needs it.
        complete=with_torchs,
        document=lambda session: document(session, view),
        screen=lambda found, width: screen(found, view, width),
        is_led=view.is_table,
    )

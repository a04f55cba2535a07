"""`ctrace kernels eject`: take generated kernels out of a run, as packages that need only torch and triton."""

from pathlib import Path
from typing import Annotated

import typer

from ctrace.cli import command_options as opt
from ctrace.cli.run_request import Request

EXAMPLES = """\b
Examples:
  ctrace kernels eject gelu_1 -o ops           a kernel of the last run
  ctrace kernels eject --line model.py:24 -o ops
  ctrace kernels eject --all -o ops            every generated kernel
  ctrace kernels eject gelu_1 -o ops --of model.py --target h100 --train
  python -m pytest ops/gelu_1                  check it: no ctrace needed
"""

Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="[NAME]...", help="Kernels; a unique part of a name is enough."),
]
Folder = Annotated[
    Path | None, typer.Option("-o", "--output", metavar="DIR", help="Write one package per kernel into DIR. Required.")
]
Line = Annotated[
    str | None, typer.Option("--line", metavar="PLACE", help="Eject the kernels of LINE, FILE:LINE or FILE:LINE-LINE.")
]
All = Annotated[bool, typer.Option("--all", help="Eject every generated kernel; list those that cannot be ejected.")]
Of = Annotated[
    str | None,
    typer.Option("--of", metavar="TARGET", help="Capture this model or program, or read this saved run or log."),
]
Graph = Annotated[str | None, typer.Option("--graph", metavar="ID", help="Choose only from one graph, such as 0/1.")]
AtStage = Annotated[
    str | None, typer.Option("--stage", metavar="STAGE", help="Choose only forward, backward or inference kernels.")
]


def eject(
    names: Names = None,
    output: Folder = None,
    line: Line = None,
    all_of_it: All = False,
    of: Of = None,
    graph: Graph = None,
    stage: AtStage = None,
    json: opt.Json = False,
    inputs: opt.Inputs = None,
    train: opt.Train = False,
    mode: opt.Mode = None,
    dynamic: opt.Dynamic = None,
    build: opt.Build = False,
    gpu: opt.TargetGpu = None,
    timeout: opt.Timeout = None,
) -> None:
    """Write generated kernels as packages: Triton kernel, op, gradient, definition, tests and benchmark."""
    from ctrace.cli.package_runs import EjectRequest, ejected

    options = {
        "inputs": tuple(inputs or ()),
        "train": train,
        "mode": mode,
        "dynamic": dynamic,
        "build": build,
        "gpu": gpu,
    }
    request = EjectRequest(tuple(names or ()), output, line, graph, stage, all_of_it=all_of_it, json=json)
    raise typer.Exit(ejected(Request(of, (), timeout, options), request))

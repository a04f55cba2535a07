"""Options that several commands share, each declared once."""

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON; `ctrace schema COMMAND` describes it.")]
Markdown = Annotated[bool, typer.Option("--markdown", help="Print Markdown, for an issue or a pull request.")]
Output = Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write the report to FILE.")]
Verbose = Annotated[
    bool,
    typer.Option("-v", "--verbose", help="Also show graphs, attention, fusion, and the kernels that move most bytes."),
]
Fast = Annotated[
    bool,
    typer.Option(
        "--fast",
        help="Look at Dynamo alone: graph breaks, recompilations, guards and sizes. No graph is lowered, no backward "
        "is compiled, and no advice is checked.",
    ),
]
Timeout = Annotated[
    float | None, typer.Option("--timeout", metavar="SECONDS", min=0, help="Stop after SECONDS; keep what was seen.")
]
Build = Annotated[bool, typer.Option("--build", help="Compile and run the kernels too, instead of only emitting them.")]
Inputs = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        metavar="SPEC",
        help='An argument, as "float32[8,128]", "mask=bool[8,n]" (a letter: dynamic) or "0.5".',
    ),
]
Varies = Annotated[
    list[str] | None,
    typer.Option(
        "--vary",
        metavar="WHAT=VALUES",
        help='Also call it otherwise: "0=1,2,8" sizes of a dimension, "dtype=float64,bfloat16" of floating inputs, '
        '"stride=transposed,noncontiguous,channels_last", "mode=train,eval", "grad=off,on,inference", '
        '"requires_grad=on,off".',
    ),
]
Provoke = Annotated[
    bool,
    typer.Option(
        "--provoke",
        help="Also try what commonly makes torch compile again: batch 1, an odd batch, double length, train or eval, "
        "no_grad, other strides, another dtype.",
    ),
]
Train = Annotated[bool, typer.Option("--train", help="Put the model in training mode and run backward too.")]
Mode = Annotated[str | None, typer.Option("--mode", metavar="MODE", help="torch.compile's mode.")]
Dynamic = Annotated[
    bool | None, typer.Option("--dynamic/--no-dynamic", help="torch.compile's dynamic; by default torch decides.")
]
TargetGpu = Annotated[
    str | None,
    typer.Option(
        "--target", metavar="GPU", help="Emit code for a GPU that need not be there: h100, or a100,h100 to compare."
    ),
]
Fullgraph = Annotated[bool, typer.Option("--fullgraph", help="torch.compile's fullgraph: a break is an error.")]
Backend = Annotated[str | None, typer.Option("--backend", metavar="NAME", help="torch.compile's backend.")]
Name = Annotated[
    str | None, typer.Option("--name", metavar="NAME", help="Name the run; it then stays when newer ones are made.")
]

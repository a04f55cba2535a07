"""`ctrace kernels edit`: check and time an ejected kernel again whenever a file of it is saved."""

from typing import Annotated

import typer

from ctrace.cli import command_options as opt

EXAMPLES = """\b
Examples:
  ctrace kernels eject gelu_1 -o ops --of model.py --target h100
  ctrace kernels edit ops/gelu_1           then edit its kernel.py or kernel.cpp
  ctrace kernels edit ops/gelu_1 --ir      what changed in the PTX, too
  ctrace kernels edit ops/gelu_1 --once    one check, for scripts
  ctrace kernels edit ops/gelu_1 --once --json
"""

Folder = Annotated[str, typer.Argument(metavar="DIR", help="A package that ctrace kernels eject wrote.")]
Once = Annotated[bool, typer.Option("--once", help="Check once and end: 0 if it is correct, 1 if not.")]
Ir = Annotated[
    bool, typer.Option("--ir", help="Compare the compiled code, from Triton's IR to PTX, with the version before.")
]
NoTime = Annotated[bool, typer.Option("--no-time", help="Check results only.")]
Gpu = Annotated[
    str, typer.Option("--target", metavar="GPU", help="With --ir on a machine without a GPU: the GPU to compile for.")
]
Seconds = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        min=0,
        help="End a check after SECONDS: what has no result is not correct. Default: 120.",
    ),
]


def edit(
    folder: Folder,
    once: Once = False,
    ir: Ir = False,
    no_time: NoTime = False,
    gpu: Gpu = "h100",
    timeout: Seconds = None,
    json: opt.Json = False,
    output: opt.Output = None,
) -> None:
    """Watch an ejected kernel: correct or not, faster or not, on every save."""
    from ctrace.cli.console import check_output
    from ctrace.cli.package_runs import Editing
    from ctrace.inspector.errors import TargetError
    from ctrace.inspector.knowledge.gpus.gpu_table import gpu_named

    check_output(output)
    if json and not once:
        raise TargetError("--json needs --once: a watch loop prints lines until it ends", "add --once")
    # Refuses an unknown GPU before a check begins.
    gpu_named(gpu)
    editing = Editing(folder, is_timed=not no_time, code=ir, target=gpu, seconds=timeout)
    raise typer.Exit(editing.once(output, json=json) if once else editing.watch())

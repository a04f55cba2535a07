"""`ctrace kernels tune`: find the best configurations of an ejected kernel, on a GPU or compiled for one."""

from typing import Annotated

import typer

from ctrace.cli import command_options as opt

EXAMPLES = """\b
Examples:
  ctrace kernels eject gelu_1 -o ops --of model.py --target h100
  ctrace kernels tune ops/gelu_1 --target h100    compile, without a GPU
  ctrace kernels tune ops/gelu_1                  time on this GPU
  ctrace kernels tune ops/gelu_1 --most 200 --all
  ctrace kernels tune ops/gelu_1 --kernel gelu_1_kernel --dry-run --json
"""

Folder = Annotated[str, typer.Argument(metavar="DIR", help="A package that ctrace kernels eject wrote.")]
Most = Annotated[
    int, typer.Option("--most", metavar="N", min=1, help="Try at most N configurations per kernel, nearest first.")
]
Kernels = Annotated[
    list[str] | None,
    typer.Option("--kernel", metavar="NAME", help="Tune only this kernel of the package; may be given several times."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Write nothing into the package.")]
Gpu = Annotated[
    str | None,
    typer.Option("--target", metavar="GPU", help="Compile for this GPU instead of timing; see `ctrace targets`."),
]
All = Annotated[bool, typer.Option("--all", help="Show every configuration.")]
Seconds = Annotated[
    float | None,
    typer.Option("--timeout", metavar="SECONDS", min=0.1, help="End if one configuration takes longer. Default: 120."),
]


def tune(
    folder: Folder,
    gpu: Gpu = None,
    most: Most = 60,
    kernels: Kernels = None,
    dry_run: DryRun = False,
    all_of_it: All = False,
    timeout: Seconds = None,
    json: opt.Json = False,
    output: opt.Output = None,
) -> None:
    """Try configurations of an ejected kernel: warps, stages, block sizes."""
    from ctrace.cli.console import check_output
    from ctrace.cli.package_runs import tuned_packages
    from ctrace.cli.show import show_document
    from ctrace.inspector.features.workshop.package_model import TuneDocument
    from ctrace.reports.terminal.kernel_files_screen import tune_screen

    check_output(output)
    found = tuned_packages(folder, gpu, most, tuple(kernels or ()), timeout, is_written=not dry_run)
    show_document(
        TuneDocument(found),
        output,
        json=json,
        screen=lambda document, width: tune_screen(document, width, all_of_it=all_of_it),
    )

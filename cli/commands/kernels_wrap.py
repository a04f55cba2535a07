"""`ctrace kernels wrap`: a torch.library.triton_op around a Triton kernel that the user wrote."""

from pathlib import Path
from typing import Annotated

import typer

from ctrace.cli import command_options as opt

EXAMPLES = """\b
Examples:
  ctrace kernels wrap model.py:add_kernel              print the operator
  ctrace kernels wrap model.py:add_kernel -o add_op.py
  ctrace kernels wrap model.py:add_kernel --no-run     read the file only
  ctrace kernels wrap model.py:add_kernel --json
"""

Kernel = Annotated[
    str, typer.Argument(metavar="FILE:KERNEL", help="A file and the name of a @triton.jit function that it launches.")
]
NoRun = Annotated[
    bool, typer.Option("--no-run", help="Read the file without running it, and check nothing. Default: run its model.")
]
ToFile = Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write the operator to FILE.")]


def wrap(
    kernel: Kernel,
    no_run: NoRun = False,
    json: opt.Json = False,
    output: ToFile = None,
    inputs: opt.Inputs = None,
    timeout: opt.Timeout = None,
) -> None:
    """Write a PyTorch operator (triton_op) around your own Triton kernel."""
    from ctrace.cli.console import check_output, write_report
    from ctrace.cli.package_runs import refuse_existing, wrap_result
    from ctrace.cli.show import show_screen
    from ctrace.inspector.errors import Exit
    from ctrace.inspector.features.workshop.package_children import in_file
    from ctrace.reports.escape import patch_text
    from ctrace.reports.json.printer import render
    from ctrace.reports.terminal.kernel_files_screen import wrap_screen

    check_output(output)
    # Before the model runs.
    refuse_existing(output)
    found = wrap_result(kernel, tuple(inputs or ()), timeout, is_run=not no_run)
    failed = any(each.passed is False for each in found.checks)
    if json:
        write_report(render(found), output)
    else:
        write_report(patch_text(found.wrapped.source), output)
        is_printed = output is None or str(output) == "-"
        if output is not None and not is_printed:
            found = in_file(found, output)
        # Where stdout has the operator, it can be redirected into a file.
        show_screen(lambda _width: wrap_screen(found), None, on_stderr=is_printed)
    raise typer.Exit(Exit.PROGRAM if failed else Exit.DONE)

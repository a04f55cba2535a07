"""`ctrace kernels apply`: put an ejected kernel back into a model, check every value, and measure the gain."""

from pathlib import Path
from typing import Annotated

import typer

from ctrace.cli import command_options as opt

EXAMPLES = """\b
Examples:
  ctrace kernels eject gelu_1 -o ops --of model.py   writes ops/gelu_1
  ctrace kernels apply ops/gelu_1 model.py           results, then times
  ctrace kernels apply ops/gelu_1 model.py --train   gradients too
  ctrace kernels apply ops/gelu_1 model.py --diff    how to use it for good
  ctrace kernels apply ops/gelu_1 model.py --place 1 --json
"""

Folder = Annotated[str, typer.Argument(metavar="DIR", help="A package that ctrace kernels eject wrote.")]
Target = Annotated[str, typer.Argument(metavar="TARGET", help="A model: a file, file.py:name or pkg.mod:name.")]
Diff = Annotated[
    bool, typer.Option("--diff", help="Show how a program uses the package without ctrace, as a diff of the model.")
]
Places = Annotated[
    list[int] | None,
    typer.Option("--place", metavar="N", min=1, help="Replace only the N-th place; may be given several times."),
]
NoTime = Annotated[bool, typer.Option("--no-time", help="Check results only; measure nothing.")]
Rounds = Annotated[
    int | None, typer.Option("--rounds", metavar="N", min=1, help="Measure N rounds. Default: 15 or more.")
]


def apply(
    folder: Folder,
    target: Target,
    diff: Diff = False,
    places: Places = None,
    no_time: NoTime = False,
    rounds: Rounds = None,
    json: opt.Json = False,
    output: opt.Output = None,
    inputs: opt.Inputs = None,
    vary: opt.Varies = None,
    train: opt.Train = False,
    mode: opt.Mode = None,
    dynamic: opt.Dynamic = None,
    fullgraph: opt.Fullgraph = False,
    timeout: opt.Timeout = None,
) -> None:
    """Apply an ejected kernel to a model: check all results, then measure."""
    from ctrace.cli.console import check_output
    from ctrace.cli.package_runs import applied_package, apply_exit_code
    from ctrace.cli.show import show_document
    from ctrace.inspector.features.workshop.package_model import ApplyDocument
    from ctrace.inspector.runs.capture_request import Options
    from ctrace.reports.terminal.kernel_files_screen import apply_screen
    from ctrace.reports.wording.kernel_packages import applied_line

    check_output(output)
    options = Options(
        tuple(inputs or ()), tuple(vary or ()), train=train, mode=mode, dynamic=dynamic, fullgraph=fullgraph
    )
    found, diffs = applied_package(
        folder,
        target,
        options,
        places=tuple(places or ()),
        is_timed=not no_time,
        rounds=rounds,
        timeout=timeout,
        with_diffs=diff,
    )
    document = ApplyDocument(target=target, package=folder, summary=applied_line(found), of=found, diffs=diffs)
    show_document(document, output, json=json, screen=lambda answer, _width: apply_screen(answer, str(Path.cwd())))
    raise typer.Exit(apply_exit_code(found))

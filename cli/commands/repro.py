"""`ctrace repro`: cut a model to the least code that still shows a finding."""

from pathlib import Path
from typing import Annotated

import typer

from ctrace.cli import command_options as opt

EXAMPLES = """\b
Examples:
  ctrace repro                           reproduce the first finding of the last run
  ctrace repro model.py:26               reproduce the finding at that line
  ctrace repro model.py -o repro.py      run the model first, and write the program to a file
  ctrace repro model.py b3f21a --issue   print the text of an issue
  ctrace repro model.py --culprit        the kernel that ctrace accuracy names
  ctrace repro --budget 5m
"""

Target = Annotated[
    str | None,
    typer.Argument(
        metavar="[TARGET]",
        help="A file, file.py:name or pkg.mod:name, or a finding of the last run: its id, or file.py:12.",
    ),
]
Site = Annotated[
    str | None,
    typer.Argument(metavar="[SITE]", help="A finding of the target: its id in ctrace explain, or file.py:12."),
]
BudgetText = Annotated[
    str, typer.Option("--budget", metavar="TIME", help="Stop after this time, such as 60s or 5m, with the best so far.")
]
Issue = Annotated[bool, typer.Option("--issue", help="Print an issue as Markdown: program, output and versions.")]
Culprit = Annotated[
    bool,
    typer.Option(
        "--culprit",
        help="Reproduce the kernel that ctrace accuracy names: by default the worst, or the one at SITE.",
    ),
]
OutputFile = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="FILE", help="Write the program, the issue or the report to FILE."),
]


def repro(
    target: Target = None,
    site: Site = None,
    culprit: Culprit = False,
    budget: BudgetText = "60s",
    issue: Issue = False,
    json: opt.Json = False,
    output: OutputFile = None,
    inputs: opt.Inputs = None,
    vary: opt.Varies = None,
    provoke: opt.Provoke = False,
    train: opt.Train = False,
    mode: opt.Mode = None,
    dynamic: opt.Dynamic = None,
    timeout: opt.Timeout = None,
) -> None:
    """Cut a model to the least code that still shows a finding, as a program without ctrace.

    Each step of the reduction is tried, and keeps the finding at its line. The result goes to stdout.
    """
    from ctrace.cli.command_options import seconds_of
    from ctrace.cli.console import check_output
    from ctrace.cli.repro_steps import ReproRequest, reproduced
    from ctrace.inspector.runs.capture_request import Options

    check_output(output)
    options = Options(tuple(inputs or ()), tuple(vary or ()), provoke, train, mode, dynamic)
    request = ReproRequest(
        target=target,
        site=site,
        options=options,
        budget=seconds_of(budget),
        timeout=timeout,
        issue=issue,
        json=json,
        output=output,
        culprit=culprit,
    )
    raise typer.Exit(reproduced(request))

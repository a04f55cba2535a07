"""`ctrace check`: whether models compile as well as before, for CI."""

from pathlib import Path
from typing import Annotated

import typer

from ctrace.cli import options as opt

EXAMPLES = """\b
Examples:
  ctrace check --init "models/*.py"      write ctrace.yaml and ctrace.lock
  ctrace check                           all models of ctrace.yaml
  ctrace check models/mask.py --train    one model, with or without a policy
  ctrace check --update                  today's state is the new baseline
  ctrace check --update --only-improve   only what got better; never looser
  ctrace check --junit ctrace.xml --sarif ctrace.sarif --annotations
  ctrace check --from-trace traces/      logs of TORCH_TRACE, one a rank
"""

Models = Annotated[
    list[str] | None, typer.Argument(help="Models to check, as ctrace explain takes them. Default: the policy's.")
]
PolicyFile = Annotated[
    Path | None, typer.Option("--policy", metavar="FILE", help="The policy. Default: the nearest ctrace.yaml.")
]
LockFile = Annotated[
    Path | None, typer.Option("--lock", metavar="FILE", help="The lock. Default: ctrace.lock beside the policy.")
]
Init = Annotated[bool, typer.Option("--init", help="Write a commented policy, and a lock with today's state.")]
Update = Annotated[bool, typer.Option("--update", help="Write today's state into the lock.")]
OnlyImprove = Annotated[
    bool, typer.Option("--only-improve", help="With --update: write only what got better; nothing gets looser.")
]
Jobs = Annotated[
    int | None, typer.Option("-j", "--jobs", metavar="N", min=1, help="Models at a time. Default: one a core.")
]
FromTrace = Annotated[
    Path | None,
    typer.Option("--from-trace", metavar="DIR", help="Check logs that TORCH_TRACE wrote elsewhere; nothing is run."),
]
Junit = Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="Write JUnit XML too.")]
Sarif = Annotated[Path | None, typer.Option("--sarif", metavar="FILE", help="Write SARIF 2.1.0 too.")]
Summary = Annotated[
    Path | None,
    typer.Option("--summary", metavar="FILE", help="Append the table, as to $GITHUB_STEP_SUMMARY."),
]
Annotations = Annotated[bool, typer.Option("--annotations", help="Print GitHub annotations too.")]
NoInductorGuards = Annotated[
    bool,
    typer.Option(
        "--no-inductor-guards",
        help="Do not lower graphs with symbolic sizes for the guards that Inductor adds: faster, and sees less.",
    ),
]


def check(
    models: Models = None,
    policy: PolicyFile = None,
    lock: LockFile = None,
    init: Init = False,
    update: Update = False,
    only_improve: OnlyImprove = False,
    jobs: Jobs = None,
    from_trace: FromTrace = None,
    json: opt.Json = False,
    markdown: opt.Markdown = False,
    output: opt.Output = None,
    junit: Junit = None,
    sarif: Sarif = None,
    summary: Summary = None,
    annotations: Annotations = False,
    inputs: opt.Inputs = None,
    vary: opt.Varies = None,
    provoke: opt.Provoke = False,
    train: opt.Train = False,
    mode: opt.Mode = None,
    dynamic: opt.Dynamic = None,
    gpu: opt.TargetGpu = None,
    timeout: opt.Timeout = None,
    no_inductor_guards: NoInductorGuards = False,
) -> None:
    """Check that models compile as well as the policy and the lock say; exit 1 if not."""
    from ctrace.cli.gate.checking import NotUpdatedError, checked, started
    from ctrace.cli.gate.reports import Reports
    from ctrace.cli.gate.wanted import Wanted
    from ctrace.inspector.errors import TargetError
    from ctrace.inspector.runs.order import Options

    if only_improve and not update:
        raise TargetError("--only-improve goes with --update", "say both: ctrace check --update --only-improve")
    reports = Reports(json, markdown, output, junit, sarif, summary, annotations)
    reports.check()
    options = Options(tuple(inputs or ()), tuple(vary or ()), provoke, train, mode, dynamic)
    wanted = Wanted(tuple(models or ()), policy, lock, options, gpu, timeout, jobs, from_trace, not no_inductor_guards)
    wanted.refuse(init=init)
    try:
        outcome = started(wanted) if init else checked(wanted, update=update, only_improve=only_improve)
    except NotUpdatedError as error:
        reports.write(error.outcome)
        raise
    reports.write(outcome)
    raise typer.Exit(outcome.exit)

"""`ctrace check`: check in CI that models compile as well as before."""

from pathlib import Path
from typing import Annotated

import typer

from ctrace.cli import command_options as opt

EXAMPLES = """\b
Examples:
  ctrace check --init "models/*.py"      write ctrace.yaml and ctrace.lock
  ctrace check --init --github net.py    and a workflow for GitHub
  ctrace check                           check all models of ctrace.yaml
  ctrace check models/mask.py --train    one model, with or without a policy
  ctrace check --update                  make the current state the baseline
  ctrace check --update --only-improve   record improvements only
  ctrace check --junit ctrace.xml --sarif ctrace.sarif --annotations
  ctrace check --accuracy                compare the numbers, too
  ctrace check --memory                  the peak of memory, too
  ctrace check --suggest                 name proved repairs of new findings
  ctrace check --from-trace traces/      TORCH_TRACE logs, one per rank
  ctrace check --on ray                  all models on a Ray cluster
"""

Models = Annotated[
    list[str] | None,
    typer.Argument(help="Models to check, written as for ctrace explain. Default: all models of the policy."),
]
PolicyFile = Annotated[
    Path | None,
    typer.Option("--policy", metavar="FILE", help="Read the policy from FILE. Default: the nearest ctrace.yaml."),
]
LockFile = Annotated[
    Path | None,
    typer.Option("--lock", metavar="FILE", help="Use FILE as the lock. Default: ctrace.lock beside the policy."),
]
Init = Annotated[bool, typer.Option("--init", help="Write a commented policy, and a lock with the current state.")]
Github = Annotated[
    bool, typer.Option("--github", help="With --init, also write .github/workflows/ctrace.yml, which runs this check.")
]
Update = Annotated[bool, typer.Option("--update", help="Write the current state to the lock.")]
OnlyImprove = Annotated[
    bool, typer.Option("--only-improve", help="With --update, write only improvements; never loosen the lock.")
]
Jobs = Annotated[
    int | None,
    typer.Option("-j", "--jobs", metavar="N", min=1, help="Check N models at a time. Default: one per core."),
]
FromTrace = Annotated[
    Path | None,
    typer.Option("--from-trace", metavar="DIR", help="Check logs that TORCH_TRACE wrote elsewhere; run nothing."),
]
Junit = Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="Also write JUnit XML to FILE.")]
Diagnostics = Annotated[
    Path | None,
    typer.Option("--diagnostics", metavar="FILE", help="Also write FILE for editors: diagnostics of LSP, as JSON."),
]
Sarif = Annotated[Path | None, typer.Option("--sarif", metavar="FILE", help="Also write SARIF 2.1.0 to FILE.")]
Summary = Annotated[
    Path | None,
    typer.Option("--summary", metavar="FILE", help="Append the Markdown table to FILE, such as $GITHUB_STEP_SUMMARY."),
]
Annotations = Annotated[bool, typer.Option("--annotations", help="Also print GitHub annotations.")]
NoInductorGuards = Annotated[
    bool,
    typer.Option(
        "--no-inductor-guards",
        help="Leave out the guards that Inductor adds to graphs with symbolic sizes: faster, but less complete.",
    ),
]

NoCache = Annotated[
    bool,
    typer.Option("--no-cache", help="Check all models again, including those unchanged since the last check."),
]
FreshProcesses = Annotated[
    bool,
    typer.Option(
        "--fresh-processes",
        help="Start a new Python for each model instead of forking one that has imported torch: slower, same results.",
    ),
]

Suggest = Annotated[
    bool,
    typer.Option("--suggest", help="Look for a proved repair of each finding, as ctrace fix does, and name it."),
]
SuggestBudget = Annotated[
    str | None,
    typer.Option("--budget", metavar="TIME", help="With --suggest, stop looking after this time. Default: 5m."),
]

Accuracy = Annotated[
    bool,
    typer.Option(
        "--accuracy",
        help="Also build each model's kernels, and compare them with eager: an operation with a wrong result fails.",
    ),
]

Memory = Annotated[
    bool,
    typer.Option(
        "--memory",
        help="Also follow the memory of a step of each model: a higher computed peak than in the lock fails.",
    ),
]


def check(
    models: Models = None,
    policy: PolicyFile = None,
    lock: LockFile = None,
    init: Init = False,
    github: Github = False,
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
    diagnostics: Diagnostics = None,
    inputs: opt.Inputs = None,
    vary: opt.Varies = None,
    provoke: opt.Provoke = False,
    train: opt.Train = False,
    mode: opt.Mode = None,
    dynamic: opt.Dynamic = None,
    gpu: opt.TargetGpu = None,
    fake: opt.Fake = False,
    assume: opt.Assume = None,
    layers: opt.Layers = None,
    timeout: opt.Timeout = None,
    no_inductor_guards: NoInductorGuards = False,
    on: opt.On = None,
    no_cache: NoCache = False,
    fresh_processes: FreshProcesses = False,
    suggest: Suggest = False,
    budget: SuggestBudget = None,
    accuracy: Accuracy = False,
    memory: Memory = False,
) -> None:
    """Check that models compile as well as before; exit 1 if not."""
    from msgspec.structs import replace

    from ctrace.cli.command_options import seconds_of
    from ctrace.cli.gate.check_request import CheckRequest
    from ctrace.cli.gate.check_suggestions import DEFAULT_BUDGET
    from ctrace.cli.gate.checking import NotUpdatedError, checked, started
    from ctrace.cli.gate.reports import Reports
    from ctrace.inspector.errors import TargetError
    from ctrace.inspector.runs.capture_request import Options

    if only_improve and not update:
        raise TargetError("--only-improve needs --update", "use both: ctrace check --update --only-improve")
    # A workflow checks the files that --init writes, and is no report of a check.
    if github and not init:
        todo = 'use both: ctrace check --init --github "models/*.py"'
        raise TargetError("--github writes a workflow for a new policy", todo)
    if budget is not None and not suggest:
        raise TargetError("--budget limits the search of --suggest", "use both: ctrace check --suggest --budget 120s")
    if suggest and fake:
        raise TargetError("--suggest and --fake exclude each other", "remove one: a proof compares values")
    # What is recorded is accepted, and needs no repair.
    if suggest and update:
        raise TargetError("--update records findings, --suggest looks for their repairs", "choose one")
    reports = Reports(json, markdown, output, junit, sarif, summary, annotations, diagnostics)
    reports.check()
    options = Options(
        tuple(inputs or ()),
        tuple(vary or ()),
        provoke,
        train,
        mode,
        dynamic,
        fake=fake,
        assume=tuple(assume or ()),
        layers=layers,
    )
    request = CheckRequest(
        models=tuple(models or ()),
        policy=policy,
        lock=lock,
        options=options,
        gpu=gpu,
        timeout=timeout,
        jobs=jobs,
        from_trace=from_trace,
        inductor_guards=not no_inductor_guards,
    )
    seconds = seconds_of(budget or DEFAULT_BUDGET) if suggest else None
    request = replace(request, cache=not no_cache, forks=not fresh_processes, engine=opt.engine_of(on), suggest=seconds)
    request = replace(request, accuracy=accuracy, memory=memory)
    request.refuse(init=init)
    try:
        if init:
            outcome = started(request, github=github)
        else:
            outcome = checked(request, update=update, only_improve=only_improve)
    except NotUpdatedError as error:
        # The check is complete, and CI needs its reports: only the lock is not written.
        reports.write(error.outcome)
        raise
    reports.write(outcome)
    raise typer.Exit(outcome.exit)

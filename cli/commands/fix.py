"""`ctrace fix`: find repairs, prove each in a copy, and apply those that the user wants."""

from pathlib import Path
from typing import Annotated

import typer

from ctrace.cli import command_options as opt

EXAMPLES = """\b
Examples:
  ctrace fix model.py                    try repairs, prove them, change nothing
  ctrace fix model.py --diff             print the patch of all proved repairs
  ctrace fix model.py -o fix.patch       write it to a file
  ctrace fix model.py --apply            change the files
  ctrace fix --undo                      take the last change back
  ctrace fix model.py --only tensor_branch --finding model.py:26
  ctrace fix model.py --accept output_guard   answer yes to its question
  ctrace fix model.py --budget 120s --json
"""

Target = Annotated[
    str | None, typer.Argument(help="A file, file.py:name or pkg.mod:name: a model, or a program that compiles one.")
]
Arguments = Annotated[list[str] | None, typer.Argument(help="Arguments of the program.")]
Apply = Annotated[bool, typer.Option("--apply", help="Write the proved repairs into the files.")]
Undo = Annotated[bool, typer.Option("--undo", help="Undo the last --apply.")]
Force = Annotated[bool, typer.Option("--force", help="With --apply, also change files that are not committed to git.")]
Diff = Annotated[bool, typer.Option("--diff", help="Print the patch of the proved repairs, nothing else.")]
Only = Annotated[list[str] | None, typer.Option("--only", metavar="NAME", help="Try only this repair; repeatable.")]
FindingName = Annotated[
    str | None, typer.Option("--finding", metavar="ID", help="Repair only this finding: its id, or file.py:12.")
]
Accept = Annotated[
    list[str] | None,
    typer.Option("--accept", metavar="NAME", help="Answer yes to this repair's question; repeatable."),
]
Inference = Annotated[
    bool, typer.Option("--inference", help="Prove repairs for calls without gradients: do not compare gradients.")
]
BudgetText = Annotated[
    str | None, typer.Option("--budget", metavar="TIME", help="Stop after this time, such as 120s or 5m.")
]
FailOnUnfixed = Annotated[bool, typer.Option("--fail-on-unfixed", help="Exit 1 if a finding has no proved repair.")]
Report = Annotated[
    bool, typer.Option("--report", help="Print the text of an issue for findings in packages that you do not own.")
]
NoBuild = Annotated[bool, typer.Option("--no-build", help="Build no kernels for the last proof.")]
OutputFile = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="FILE", help="Write the patch, or with --json the report, to FILE."),
]


def fix(
    target: Target = None,
    args: Arguments = None,
    apply: Apply = False,
    undo: Undo = False,
    force: Force = False,
    diff: Diff = False,
    only: Only = None,
    finding: FindingName = None,
    accept: Accept = None,
    inference: Inference = False,
    budget: BudgetText = None,
    report: Report = False,
    fail_on_unfixed: FailOnUnfixed = False,
    no_build: NoBuild = False,
    json: opt.Json = False,
    output: OutputFile = None,
    inputs: opt.Inputs = None,
    vary: opt.Varies = None,
    provoke: opt.Provoke = False,
    train: opt.Train = False,
    mode: opt.Mode = None,
    dynamic: opt.Dynamic = None,
    timeout: opt.Timeout = None,
    fake: opt.NoFake = False,
) -> None:
    """Try repairs of a model's findings in a copy, and offer those that are proved.

    A program runs whole for each try.
    """
    opt.refuse_fake("fix", "a repair is proved by comparing values", fake=fake)
    from ctrace.cli.command_options import seconds_of
    from ctrace.cli.console import check_output
    from ctrace.cli.fix_steps import FixRequest, fixed, refuse, undone
    from ctrace.inspector.features.fix.repairs.fixing import RepairChoice
    from ctrace.inspector.runs.capture_request import Options

    if undo:
        undone(target)
        return
    check_output(output)
    options = Options(tuple(inputs or ()), tuple(vary or ()), provoke, train, mode, dynamic)
    names, accepted = (tuple(name for each in words or () for name in each.split("+")) for words in (only, accept))
    choice = RepairChoice(names, finding or "", accepted, inference, build=not no_build)
    request = FixRequest(
        target=target,
        args=tuple(args or ()),
        options=options,
        choice=choice,
        budget=seconds_of(budget),
        timeout=timeout,
        apply=apply,
        force=force,
        diff=diff,
        json=json,
        report=report,
        output=output,
        fail_on_unfixed=fail_on_unfixed,
    )
    refuse(request)
    raise typer.Exit(fixed(request))
